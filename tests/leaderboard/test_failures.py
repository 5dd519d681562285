"""Runs without results are told by reason."""

from pathlib import Path
from typing import Any

import pytest

from attention_lab.leaderboard.failures import Failure, describe_failures, list_failures


def test_equal_reasons_of_failures_are_one_line() -> None:
    reasons = [(1, "a <b>"), (2, "c"), (3, "a <b>"), (4, "c"), (5, "c"), (6, "c")]
    failed = [Failure("failed", f"seed={seed}", str(seed), reason) for seed, reason in reasons]
    assert describe_failures(failed, 8, "job") == [
        "2 of 8 jobs failed (seed=1, seed=3): a <b>",
        "4 of 8 jobs failed: c",
    ]
    assert describe_failures(failed[:1], 1) == ["1 of 1 run failed: a <b>"]
    three = [failed[place] for place in (1, 3, 4)]
    assert describe_failures(three, 4) == ["3 of 4 runs failed (seed=2, seed=4, seed=5): c"]


def test_reasons_that_differ_in_the_folder_of_their_run_are_one_line() -> None:
    failed = [
        Failure("failed", f"lr={at}", f"{at}_lr-{at}", f"the loss is nan; see /x/{at}_lr-{at}/bad_batch.pt")
        for at in range(2)
    ]
    said = "the loss is nan; see /x/*/bad_batch.pt"
    assert describe_failures(failed, 4, "job") == [f"2 of 4 jobs failed (lr=0, lr=1): {said}"]
    assert describe_failures(failed[:1], 4) == ["1 of 4 runs failed (lr=0): " + failed[0].reason]
    assert list_failures(failed).startswith(f"- 2 failed: `{said}`\n    - `lr=0` in `0_lr-0`")


@pytest.mark.long
def test_failed_jobs_of_an_earlier_command_do_not_fail_a_sweep(command: Any, tmp_path: Path) -> None:
    """With a corrected value, the jobs have other names, and the folders of those that failed remain."""
    options = ["-m", "model=nw", "trainer.max_epochs=1", "pictures=0", "logger=none", "resume=auto"]
    values = "normalizer.temperature="
    broken = command(*options, f"{values}1.0,-1.0", folder=tmp_path / "sweep")
    assert broken.status == 1 and broken.err.startswith(f"Error: 1 of 2 jobs failed ({values}-1.0): ")
    done = command(*options, f"{values}1.0,2.0", folder=tmp_path / "sweep")
    assert (done.status, done.err) == (0, "")
    assert f"\nEarlier: 1 of 3 jobs failed ({values}-1.0): " in done.out
    broken = command(*options, f"{values}1.0,2.0,-3.0", folder=tmp_path / "sweep")
    assert broken.status == 1 and broken.err.startswith("Error: 1 of 3 jobs failed (")


def test_an_interval_is_for_a_search(command: Any) -> None:
    done = command("-m", "model=nw", "optimizer.lr=interval(1e-4,1e-2)")
    assert (done.status, done.out) == (1, "")
    wanted = (
        "optimizer.lr=interval(1e-4,1e-2) is for a search, with sweep=optuna; for a sweep, list the values"
    )
    assert done.err.startswith(f"Error: {wanted}")
