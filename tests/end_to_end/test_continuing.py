"""A new run that continues from the checkpoint of an older one, given by `ckpt_path`."""

from folders import metrics_of

SMALL = [
    "data=reverse",
    "data.train_size=48",
    "data.validation_size=12",
    "data.test_size=12",
    "data.max_length=5",
    "data.batch_size=16",
    "model.embedding_size=6",
    "model.hidden_size=8",
]


def test_a_run_goes_on_from_a_checkpoint_unless_nothing_is_left(command) -> None:
    first = command(*SMALL, "trainer.max_epochs=2")
    assert first.status == 0, first.err
    checkpoint, steps = f"{first.folder}/checkpoints/last.ckpt", metrics_of(first.folder)["fit/steps"]
    more = command(*SMALL, "trainer.max_epochs=4", f"ckpt_path={checkpoint}")
    assert more.status == 0, more.err
    assert metrics_of(more.folder)["fit/steps"] == 2 * steps
    for option, done in (
        ("trainer.max_epochs=2", "2 epochs"),
        ("trainer.max_epochs=1", "2 epochs"),
        (f"trainer.max_steps={steps:.0f}", f"{steps:.0f} steps"),
    ):
        refused = command(*SMALL, "trainer.max_epochs=4", option, f"ckpt_path={checkpoint}")
        assert refused.status == 1
        assert refused.err == (
            f"Error: ckpt_path={checkpoint}: it has been trained for {done} already, and "
            f"{option} counts them: choose more\n"
        )
