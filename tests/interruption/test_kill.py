"""Runs that are killed, stopped and started again, as by a user or a cluster."""

import os
import random
import signal
import time
from pathlib import Path

import pytest
import torch
from killed_runs import QUICK, SEQ2SEQ, SMALL, finish, lives, next_save, start_training, weights

TWO_PROCESSES = "trainer.devices=2 trainer.accelerator=cpu"


@pytest.mark.slow
@pytest.mark.parametrize("model", SMALL)
def test_twenty_kills_at_random_moments_change_no_bit(model: str, tmp_path: Path) -> None:
    unbroken, broken = tmp_path / "unbroken", tmp_path / "broken"
    process = start_training(SMALL[model], QUICK, f"hydra.run.dir={unbroken}")
    seconds_to_start = next_save(unbroken, process)
    start = time.monotonic()
    finish(process)
    seconds_to_train = time.monotonic() - start
    command = [SMALL[model], QUICK, f"hydra.run.dir={broken}"]
    moments = random.Random(model)
    kills, alive = 0, True
    while kills < 20 and alive:
        process = start_training(*command)
        if moments.random() < 0.25:  # before it continues
            time.sleep(moments.uniform(0, seconds_to_start))
        else:
            next_save(broken, process)
            time.sleep(moments.uniform(0, seconds_to_train / 20))
        alive = process.poll() is None
        kills += alive
        process.kill()
        process.communicate()
        if (broken / ".hydra" / "overrides.yaml").exists():
            command = [f"resume={broken}"]
    finish(start_training(*command))
    assert kills > 5
    for name in ("last", "best"):
        before, after = weights(unbroken, name), weights(broken, name)
        assert before.keys() == after.keys()
        assert all(torch.equal(before[key], after[key]) for key in before), name


@pytest.mark.slow
@pytest.mark.parametrize("sweep", [False, True], ids=["run", "sweep"])
@pytest.mark.parametrize("to", ["first", "second", "all"])
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM], ids=lambda signum: signum.name)
def test_a_signal_to_any_process_ends_all_of_them(
    sweep: bool, to: str, signum: signal.Signals, tmp_path: Path
) -> None:
    folder, place = tmp_path, f"hydra.run.dir={tmp_path}"
    if sweep:
        folder = tmp_path / "0"
        place = f"-m seed=1,2 hydra.sweep.dir={tmp_path} hydra.sweep.subdir=${{hydra.job.num}}"
    process = start_training(place, SEQ2SEQ, QUICK, TWO_PROCESSES)
    next_save(folder, process)
    group = _below(process.pid)
    if to == "all":
        os.killpg(process.pid, signum)
    else:
        os.kill(process.pid if to == "first" else group[-1], signum)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 128 + signum or (sweep and process.returncode in (130, 143)), errors
    assert f"python train.py resume={folder}" in errors
    assert "Traceback" not in errors
    end = time.monotonic() + 20
    while any(map(lives, group)) and time.monotonic() < end:
        time.sleep(0.1)
    assert not [one for one in group if lives(one)]
    assert not (tmp_path / "1").exists()
    last = torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)
    assert last["global_step"] > 0


def _below(process: int) -> list[int]:
    """The descendants of a process, in the order in which they started."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [one for child in map(int, children) for one in (child, *_below(child))]


@pytest.mark.slow
def test_a_loss_that_is_not_finite_in_one_process_ends_both(tmp_path: Path) -> None:
    diverging = "trainer.gradient_clip_val=null optimizer.lr=1e38"
    process = start_training(SEQ2SEQ, QUICK, TWO_PROCESSES, diverging, f"hydra.run.dir={tmp_path}")
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 1, errors
    assert errors.startswith("Error: the ")
    assert "the batch is saved in" in errors
    assert errors.count("\n") == 1
    assert list(tmp_path.glob("bad_batch*.pt"))


@pytest.mark.slow
def test_a_process_that_is_killed_ends_the_others_in_one_line(tmp_path: Path) -> None:
    process = start_training(SEQ2SEQ, QUICK, TWO_PROCESSES, f"hydra.run.dir={tmp_path}")
    next_save(tmp_path, process)
    group = _below(process.pid)
    os.kill(group[-1], signal.SIGKILL)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 1, errors
    assert errors.startswith("Error: another process of this run was killed")
    assert errors.endswith(f"python train.py resume={tmp_path}\n")
    assert errors.count("\n") == 1
    assert not [one for one in group if lives(one)]
