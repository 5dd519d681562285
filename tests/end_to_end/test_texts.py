"""Pairs of sentences in subwords, with BLEU and chrF, and several outputs for an input."""

import json

import pytest

import attention_lab
from attention_lab.errors import LabError

WORDS = ["low", "lower", "new", "newer", "wide", "wider"]


@pytest.mark.long
def test_sentences_in_subwords_are_trained_tested_and_predicted(command, tmp_path) -> None:
    pytest.importorskip("tokenizers")
    pytest.importorskip("sacrebleu")
    lines = [f"{one} {other}\t{other} {one}" for one in WORDS for other in WORDS]
    (tmp_path / "pairs.tsv").write_text("\n".join(lines))
    done = command(
        *("model=seq2seq", "data=pairs", f"data.file={tmp_path / 'pairs.tsv'}", "data.subwords=14"),
        *("data.source_split=subwords", "data.target_split=subwords", "task.text_metrics=true"),
        *(
            "model.embedding_size=8",
            "model.hidden_size=8",
            "trainer.max_epochs=1",
            "pictures=0",
            "logger=none",
        ),
        "monitor.metric=validation/bleu",
        "monitor.mode=max",
    )
    assert (done.status, done.err) == (0, "")
    metrics = json.loads((done.folder / "metrics.json").read_text())
    assert 0 <= metrics["test/bleu"] <= 100 and 0 <= metrics["test/chrf"] <= 100
    assert metrics["fit/best"] == metrics["validation/bleu"]

    best = done.folder / "checkpoints" / "best.ckpt"
    predicted = command("stage=predict", f"ckpt_path={best}", "inputs=[low wide,new]", "task.n_best=3")
    assert predicted.status == 0, predicted.err
    rows = [line.split("\t") for line in (predicted.folder / "predictions.tsv").read_text().splitlines()]
    assert [row[:2] for row in rows] == [[text, rank] for text in ("low wide", "new") for rank in "123"]
    model = attention_lab.load(best)
    found = model.predict_n_best(["low wide", "new"], 3)
    assert [row[2:] for row in rows] == [[f"{score:.4f}", text] for one in found for text, score in one]
    assert all(one[0][1] >= one[1][1] >= one[2][1] for one in found)
    with pytest.raises(LabError, match="n must be a whole number from 1 to 1000, got 0"):
        model.predict_n_best(["low"], 0)


@pytest.mark.slow
def test_a_trained_model_is_tested_on_a_new_file(command, tmp_path) -> None:
    lines = [f"{one}{other}\t{other}{one}\n" for one in WORDS for other in WORDS]
    training, new = tmp_path / "training.tsv", tmp_path / "new.tsv"
    training.write_text("".join(lines[:26]))
    new.write_text("".join(lines[26:]))
    small = (
        "model.embedding_size=8",
        "model.hidden_size=8",
        "trainer.max_epochs=1",
        "pictures=1",
        "logger=none",
    )
    trained = command("data=pairs", f"data.file={training}", *small)
    assert trained.status == 0, trained.err
    training.unlink()
    given = ("stage=test", f"ckpt_path={trained.folder}")
    for chosen in ((), ("data=pairs",)):
        tested = command(*given, *chosen, f"data.test_file={new}")
        assert (tested.status, tested.err) == (0, "")
        assert len((tested.folder / "predictions.tsv").read_text().splitlines()) == 11
    split = command(*given, f"data.file={new}")
    assert (split.status, split.err.count("\n")) == (0, 1)
    assert (
        "its test split (1 example) is tested; to test on the whole file, give data.test_file=" in split.err
    )
