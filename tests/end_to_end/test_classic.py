"""The textbook experiment on attention pooling, beside baselines without a query."""

import pytest
from folders import metrics_of
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import attention_lab


@pytest.mark.long
def test_the_classic_experiment_has_the_losses_worked_out_from_its_formula(command) -> None:
    """Summed squared errors, each sample predicted from the 49 others; gradient descent from w = 1."""
    done = command("experiment=classic_nw")
    assert (done.status, done.err) == (0, "")
    events = EventAccumulator(str(done.folder)).Reload()
    losses = [event.value for event in events.Scalars("train/loss")]
    assert losses == pytest.approx([32.95, 29.48, 28.99, 28.41, 27.74], abs=0.006)
    widths = [event.value for event in events.Scalars("train/width")]
    assert [widths[0], widths[4]] == pytest.approx([11.17, 8.98], abs=0.006)
    assert metrics_of(done.folder)["train/width"] == pytest.approx(8.98, abs=0.006)
    assert {"fit.png", "loss.png"} <= {path.name for path in (done.folder / "attention").iterdir()}


@pytest.mark.slow
def test_the_baselines_of_the_classic_experiment_have_no_query(command) -> None:
    """Whatever is asked, they predict one number; the fully connected layer has a weight for each sample."""
    for score, learned in (("constant", 0), ("query_free", 64)):
        done = command("experiment=classic_nw", f"scoring={score}")
        assert done.status == 0, done.err
        assert metrics_of(done.folder)["parameters"] == learned
        assert metrics_of(done.folder)["test/mse"] > 1
        predicted = attention_lab.load(done.folder / "checkpoints" / "best.ckpt").predict(["0", "2", "5"])
        assert len(set(predicted)) == 1
    refused = command("model=nw", "scoring=query_free", "data.train_size=65")
    assert refused.err == (
        "Error: scoring=query_free was made for 64 positions, got 65: set scoring.length=65 or more\n"
    )


@pytest.mark.slow
def test_the_loss_is_drawn_only_where_it_was_logged(command) -> None:
    done = command("model=nw", "logger=none", "trainer.max_epochs=2")
    assert done.status == 0, done.err
    assert not (done.folder / "attention" / "loss.png").exists()
    tested = command("stage=test", f"ckpt_path={done.folder}/checkpoints/best.ckpt")
    assert tested.status == 0, tested.err
    assert not (tested.folder / "attention" / "loss.png").exists()
