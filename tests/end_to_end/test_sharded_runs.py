"""trainer=fsdp: parameters divided between two processes on the CPU, with the results of trainer=ddp."""

import os
import signal
from pathlib import Path

import pytest
import torch
from folders import metrics_of
from killed_runs import QUICK, SEQ2SEQ, finish, next_save, start_training, weights

TWO_PROCESSES = "trainer.devices=2 trainer.accelerator=cpu"
FSDP = f"trainer=fsdp {TWO_PROCESSES}"
TRANSFORMER = """
    model=transformer model.d_model=16 model.heads=2 model.feedforward=16 data=reverse data.max_length=5
    data.train_size=300 data.validation_size=20 data.test_size=10 data.batch_size=10 trainer.max_epochs=12
"""
IMAGES = "model=image2seq model.embedding_size=8 model.hidden_size=8 data.batch_size=50 trainer.max_epochs=2"
LM = "model=lm model.d_model=8 model.heads=2 model.feedforward=8 data.size=300 trainer.max_epochs=2"
GRAPH = "model=graph trainer.max_epochs=20"


def _train(folder: Path, *options: str) -> dict[str, float]:
    """Train, or test; returns the metrics."""
    finish(start_training(*options, f"hydra.run.dir={folder}"))
    return metrics_of(folder)


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(TRANSFORMER.replace("max_epochs=12", "max_epochs=2"), marks=pytest.mark.long),
        *(
            pytest.param(run, marks=pytest.mark.slow)
            for run in (SEQ2SEQ, f"{TRANSFORMER} model.checkpointing=true", IMAGES, LM, GRAPH)
        ),
    ],
    ids=lambda run: run.split()[0],
)
def test_sharded_training_gives_the_weights_of_ddp(run: str, tmp_path: Path) -> None:
    # Adam divides gradients that are zero but for rounding, of the keys' biases, by their own size.
    same = [run, "threads=1 optimizer=sgd optimizer.lr=0.01 trainer.gradient_clip_val=0.5 pictures=1"]
    expected = _train(tmp_path / "ddp", *same, "trainer=ddp", TWO_PROCESSES)
    found = _train(tmp_path / "fsdp", *same, FSDP)
    for name in ("last", "best"):
        before, after = weights(tmp_path / "ddp", name), weights(tmp_path / "fsdp", name)
        assert before.keys() == after.keys()
        for key, tensor in before.items():
            torch.testing.assert_close(after[key], tensor, rtol=1e-4, atol=2e-5)
    assert found.keys() == expected.keys()
    for name in ("test/loss", "validation/loss"):
        assert found[name] == pytest.approx(expected[name], rel=1e-3)
    files = [
        {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.name.startswith("events")}
        for folder in (tmp_path / "ddp", tmp_path / "fsdp")
    ]
    assert files[0] == files[1]  # heatmaps and embeddings too


@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM], ids=lambda signum: signum.name)
def test_a_sharded_run_resumes_to_the_same_bits(signum: signal.Signals, tmp_path: Path) -> None:
    unbroken, broken = tmp_path / "unbroken", tmp_path / "broken"
    _train(unbroken, TRANSFORMER, QUICK, FSDP)
    process = start_training(TRANSFORMER, QUICK, FSDP, f"hydra.run.dir={broken}")
    next_save(broken, process)
    assert process.poll() is None
    os.killpg(process.pid, signum)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == (128 + signum if signum == signal.SIGTERM else -signum), errors
    assert "Traceback" not in errors
    finish(start_training(f"resume={broken}"))
    for name in ("last", "best"):
        before, after = weights(unbroken, name), weights(broken, name)
        assert before.keys() == after.keys()
        assert all(torch.equal(before[key], after[key]) for key in before), name


@pytest.mark.slow
def test_a_sharded_model_is_tested_and_continued(tmp_path: Path) -> None:
    trained = _train(tmp_path / "trained", TRANSFORMER, QUICK, FSDP)
    checkpoint = f"ckpt_path={tmp_path}/trained/checkpoints/best.ckpt"
    tested = _train(tmp_path / "tested", f"stage=test data=reverse {checkpoint}", FSDP)
    for name in ("test/loss", "test/token_error_rate"):
        assert tested[name] == pytest.approx(trained[name])
    longer = TRANSFORMER.replace("max_epochs=12", "max_epochs=14")
    on_one = _train(tmp_path / "one", longer, f"ckpt_path={tmp_path}/trained/checkpoints/last.ckpt")
    assert on_one["fit/steps"] > trained["fit/steps"]
    again = _train(tmp_path / "again", longer, FSDP, f"ckpt_path={tmp_path}/trained/checkpoints/last.ckpt")
    assert again["fit/steps"] > trained["fit/steps"]


@pytest.mark.slow
def test_an_optimiser_that_cannot_train_parts_of_parameters_is_named(tmp_path: Path) -> None:
    own = "optimizer._target_=torch.optim.Adafactor ~optimizer.fused"
    process = start_training(TRANSFORMER, QUICK, FSDP, own, f"hydra.run.dir={tmp_path}/run")
    _, errors = process.communicate(timeout=300)
    said = "Error: Adafactor cannot train parameters that trainer=fsdp divides among devices: choose "
    assert process.returncode == 1 and "Traceback" not in errors
    assert said + "optimizer=adamw, or trainer=ddp" in errors
