"""Mistakes in options that only the data or the metrics reveal end the run before its first epoch."""

import pytest

from attention_lab.experiment.stages import fit

TOY = ["model=seq2seq", "data=reverse", "data.train_size=32", "data.validation_size=4", "data.test_size=4"]
SMALL = ["model.embedding_size=4", "model.hidden_size=4", "trainer.max_epochs=1"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["monitor.metric=validation/foo"],
            "monitor.metric=validation/foo: there is no such metric; choose validation/loss, ",
        ),
        (
            ["callbacks=early_stopping", "callbacks.early_stopping.monitor=validation/foo"],
            "callbacks.early_stopping.monitor=validation/foo: there is no such metric; choose ",
        ),
        (
            ["task.beam_size=1000", "data.test_size=1600", "data.batch_size=320"],
            "task.beam_size=1000 makes 320,000 sequences of a batch of 320, more than 262,144",
        ),
        (
            ["+trainer.limit_test_batches=0.5"],
            "trainer.limit_test_batches=0.5 is less than one batch of the test, which has 1: choose a number",
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_mistake_is_found_before_the_first_epoch(options: list[str], message: str, command) -> None:
    done = command(*TOY, *SMALL, *options)
    assert (done.status, done.out) == (1, "")
    (line,) = done.err.splitlines()
    assert line.startswith(f"Error: {message}")


@pytest.mark.parametrize("option", ["schedule.warmup=null", "task.label_smoothing=null"])
def test_a_wrong_type_is_found_before_the_data_are_read(
    option: str, command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fit, "make_data", None)
    assert command(*TOY, option).err == f"Error: {option} must be a number\n"
