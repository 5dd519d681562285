"""Training resumes from a tampered checkpoint, or is rejected in one line."""

import random

import pytest
import torch
from damage import harmless, tampered

NW = ["model=nw", "data.train_size=10", "trainer.max_epochs=3", "pictures=0", "logger=none"]
COUNTS = [pytest.param(40, marks=pytest.mark.slow)]


@pytest.mark.parametrize("count", COUNTS)
def test_ckpt_path_and_resume(count: int, command) -> None:
    done = command(*NW)
    assert done.status == 0, done.err
    (done.folder / "metrics.json").unlink()
    last = done.folder / "checkpoints" / "last.ckpt"
    content = torch.load(last, weights_only=True)
    (last.with_name("previous.ckpt")).unlink(missing_ok=True)
    chance = random.Random(0)
    refused = 0
    for number in range(count):
        part = chance.choice([name for name in content if name != "pytorch-lightning_version"])
        torch.save({**content, part: tampered(content[part], chance)}, last)
        (done.folder / "metrics.json").unlink(missing_ok=True)
        with harmless(""):
            outcome = command(f"resume={done.folder}") if number % 2 else command(*NW, f"ckpt_path={last}")
        if outcome.status:
            refused += 1
            assert outcome.err.startswith("Error: ") and outcome.err.count("\n") == 1, (part, outcome.err)
            assert "last.ckpt" in outcome.err
    assert refused
