"""The output of stage=predict for empty inputs, its heatmaps, models without attention, and wrong options."""

from pathlib import Path

import pytest

TINY = ["data.train_size=20", "data.validation_size=4", "data.test_size=4", "trainer.max_epochs=1"]
SEQ2SEQ = ["model=seq2seq", "data=reverse", *TINY, "model.hidden_size=4", "pictures=0"]


@pytest.mark.long
def test_empty_inputs_have_empty_outputs(command, tmp_path: Path) -> None:
    fitted = command(*SEQ2SEQ)
    lines = command("stage=predict", f"ckpt_path={fitted.folder}", "inputs=[abc,zzz]").out.splitlines()
    words = tmp_path / "words.txt"
    words.write_text("abc\n\n \nzzz\n")
    some_empty = command("stage=predict", f"ckpt_path={fitted.folder}", f"inputs={words}", "task.n_best=1")
    assert some_empty.out.splitlines() == [lines[0], "\t", " \t", lines[1]]
    assert f"Warning: 2 of 4 lines in {words} are empty (first: line 2), and so are their outputs\n" in (
        some_empty.err
    )
    assert f" in {words} never occurs in training" in some_empty.err and "first in line 4)" in some_empty.err
    several = command("stage=predict", f"ckpt_path={fitted.folder}", "inputs=[abc,'']", "task.n_best=2")
    assert several.out.splitlines()[2:] == ["\t\t\t"]
    assert "Warning: 1 of 2 inputs is empty (input 2), and so is its output\n" in several.err
    none = command("stage=predict", f"ckpt_path={fitted.folder}", "inputs=['']")
    assert none.err == "Error: inputs: all inputs are empty\n"


@pytest.mark.long
def test_a_model_without_attention_predicts_without_heatmaps(command) -> None:
    options = ["model=cnn", "data=motifs", *TINY, "model.d_model=4", "model.layers=1", "model.readout=mean"]
    fitted = command(*options)
    done = command("stage=predict", f"ckpt_path={fitted.folder}", "inputs=[abcabc,bcabca]")
    assert (done.status, done.err) == (0, "")
    assert [line.partition("\t")[0] for line in done.out.splitlines()] == ["abcabc", "bcabca"]
    for stage in ("predict inputs=[abcabc]", "export"):  # neither needs a trainer
        given = (*f"stage={stage}".split(), f"ckpt_path={fitted.folder}")
        wrong = command(*given, "+trainer.detect_anomaly=0.5")
        assert wrong.err == "Error: trainer.detect_anomaly=0.5 must be true or false\n"
        unknown = command(*given, "+trainer.max_step=1")
        assert "trainer.max_step is not an option of Trainer: did you mean trainer.max_steps?" in unknown.err


@pytest.mark.long
def test_pictures_is_the_number_of_inputs_with_heatmaps(command) -> None:
    fitted = command(*SEQ2SEQ)
    for pictures in (0, 2):
        given = f"ckpt_path={fitted.folder}", "inputs=[abc,bca,cab]", f"pictures={pictures}"
        done = command("stage=predict", *given)
        names = {path.name.split("_")[1] for path in done.folder.glob("attention/*.png")}
        assert names == set(["abc", "bca"][:pictures])
        assert done.err == (f"Heatmaps of 2 of 3 inputs: {done.folder.name}/attention\n" if pictures else "")


@pytest.mark.long
def test_exported_files_are_named_from_the_working_directory(command) -> None:
    fitted = command(*SEQ2SEQ)
    done = command("stage=export", f"ckpt_path={fitted.folder}", "export=m.safetensors")
    assert done.out == "".join(f"Exported: {done.folder.name}/m.{kind}\n" for kind in ("safetensors", "json"))
