"""The command that puts a model into the package, with its card."""

from itertools import product
from pathlib import Path

import pytest
import torch
from saved_models import transduction

import attention_lab
from attention_lab.data.cmudict import CONSONANTS, VOWELS
from attention_lab.data.reading.vocabulary import Notation, Tokenizer, Vocabulary
from attention_lab.files.run_files import RECIPE
from benchmarks.package_model import main

PHONES = Tokenizer(Notation("spaces"), Vocabulary(sorted(f"{CONSONANTS} {VOWELS}".split())))


@pytest.fixture(autouse=True)
def _small_dictionary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["".join(letters) for letters in product("abcde", repeat=3)]
    (tmp_path / "cmudict.dict").write_text("".join(f"{word} B AH0 B\n{word}(2) B IY0 B\n" for word in words))
    (tmp_path / "LICENSE").write_text("Copyright (C) Carnegie Mellon University.\n")
    for user in ("attention_lab.data.cmudict", "benchmarks.package_model"):
        monkeypatch.setattr(f"{user}.dictionary_file", lambda: str(tmp_path / "cmudict.dict"))


def test_the_model_and_its_card_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = transduction(target=PHONES, beam_size=5)
    run = tmp_path / "run"
    (run / "checkpoints").mkdir(parents=True)
    (run / ".hydra").mkdir()
    (run / ".hydra" / "overrides.yaml").write_text("- experiment=g2p_cmudict\n- tags=[a b]\n")
    torch.save({RECIPE: task.recipe, "state_dict": task.state_dict()}, run / "checkpoints" / "best.ckpt")
    folder = tmp_path / "g2p-test"
    assert main([str(run), "--output", str(folder), "--beams", "2"]) == 0
    card = (folder / "README.md").read_text()
    assert capsys.readouterr().out == card + "\n"
    assert card.startswith("# g2p-test\n")
    assert "with `python train.py experiment=g2p_cmudict 'tags=[a b]'` |" in card
    assert "30 to test, 5 to validate, 40 to train" in card
    assert "| decoding | beam of 2, length penalty 0 |" in card
    assert "| words in error | 100.0% [88.4%, 100.0%]; counting only the first" in card  # it is untrained
    assert "Copyright (C) Carnegie Mellon University." in card
    assert attention_lab.pretrained(folder).task.beam_size == 2


def test_a_model_of_other_data_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = transduction()
    task.recipe["config"]["data"] = {"kind": "transduction", "_target_": "attention_lab.data.Reverse"}
    torch.save({RECIPE: task.recipe, "state_dict": task.state_dict()}, tmp_path / "x.ckpt")
    assert main([str(tmp_path / "x.ckpt"), "--output", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert error == f"benchmarks.package_model: {tmp_path}/x.ckpt was not trained on the CMU dictionary\n"
    assert not (tmp_path / "out").exists()
