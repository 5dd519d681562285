"""Runs without results are told by reason."""

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
