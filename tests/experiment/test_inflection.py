"""A checkpoint of a model that copies and reads tags: it has all that it needs; one from before has, too."""

from pathlib import Path
from typing import Any

import pytest
import torch

import attention_lab
from attention_lab.errors import LabError
from attention_lab.experiment.build import make_data, make_task
from attention_lab.files.run_files import RECIPE
from attention_lab.special_symbols import EOS, UNK

PARTS = {"scoring": "Additive", "normalizer": "Softmax", "pooling": "Soft", "window": "Global"}
EXAMPLE = Path(__file__).parents[2] / "data" / "inflection_example.tsv"
LINE = "walk\tV;PST"


def _content(**model: Any) -> dict[str, Any]:
    """An untrained model, as its checkpoint keeps it."""
    config: dict[str, Any] = {
        part: {"_target_": f"attention_lab.attention.{name}", "_partial_": True}
        for part, name in PARTS.items()
    }
    small = {"embedding_size": 4, "hidden_size": 4}
    config["model"] = {"_target_": "attention_lab.models.Seq2Seq", "needs": "transduction", **small, **model}
    config["task"] = {"_target_": "attention_lab.tasks.Transduction"}
    config["data"] = {
        "_target_": "attention_lab.data.Inflection",
        "kind": "transduction",
        "file": str(EXAMPLE),
    }
    data = make_data(config)
    task = make_task(config, data.sizes, data.codec, trainable=False)
    return {"state_dict": task.state_dict(), RECIPE: task.recipe}


def _saved(content: dict[str, Any], path: Path) -> Path:
    torch.save(content, path)
    return path


def test_a_checkpoint_is_loaded_and_predicts(tmp_path: Path) -> None:
    content = _content(copy=True, tag_input=True)
    model = attention_lab.load(_saved(content, tmp_path / "mine.ckpt"))
    assert len(model.predict([LINE, "play\tV;3;SG;PRS"])) == 2
    with pytest.raises(LabError, match="input 1: a line is lemma<TAB>tags"):
        model.predict(["walk"])


def test_heatmaps_are_labelled_with_unknown_letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = attention_lab.load(_saved(_content(copy=True), tmp_path / "mine.ckpt"))
    output = torch.tensor([[*model.codec.target.vocabulary.ids("a"), UNK, EOS]])
    monkeypatch.setattr(model.task, "decode", lambda batch: output)
    (seen,) = model.observe(["wÄlk\tV;PST;ZZZ"])
    queries, keys = seen.labels("decoder.attention")
    assert seen.output == "aÄ"
    assert queries == ["a", "Ä", "</s>"]
    assert keys == [";V", ";PST", ";ZZZ", "w", "Ä", "l", "k", "</s>"]


def test_a_checkpoint_from_before_there_were_tags_is_loaded(tmp_path: Path) -> None:
    content = _content()
    for name in ("tags", "copies"):
        del content[RECIPE]["sizes"][name]
    content[RECIPE]["codec"]["source"]["split"] = "characters"
    assert attention_lab.load(_saved(content, tmp_path / "old.ckpt")).predict(["walk"])


def test_more_tags_than_the_symbols_have_are_rejected(tmp_path: Path) -> None:
    content = _content(tag_input=True)
    content[RECIPE]["sizes"]["tags"] += 1
    with pytest.raises(LabError, match="its sizes do not match its data"):
        attention_lab.load(_saved(content, tmp_path / "bad.ckpt"))
