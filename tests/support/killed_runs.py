"""Runs of `python train.py` in processes of their own, that a test can kill."""

import os
import subprocess
import sys
import time
from pathlib import Path

import torch

REPOSITORY = Path(__file__).parents[2]
NW = "model=nw data.train_size=20 trainer.max_epochs=120 ~callbacks.convergence"
SEQ2SEQ = """
    model=seq2seq model.embedding_size=8 model.hidden_size=8 model.dropout=0.1 data=reverse data.max_length=5
    data.train_size=300 data.validation_size=20 data.test_size=10 data.batch_size=10 trainer.max_epochs=20
"""
MULTIHEAD = """
    model=multihead model.d_model=8 model.heads=2 model.feedforward=8 data.batch_size=50 trainer.max_epochs=15
"""
SMALL = {"nw": NW, "seq2seq": SEQ2SEQ, "multihead": MULTIHEAD}
QUICK = "pictures=0 threads=1 callbacks.resumable.every_seconds=0.2 callbacks.attention_maps.every=100"


def start_training(*options: str) -> subprocess.Popen[str]:
    """Start `python train.py`; each argument may hold several options, separated by spaces."""
    return subprocess.Popen(
        [sys.executable, str(REPOSITORY / "train.py"), *" ".join(options).split()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def weights(folder: Path, name: str) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = torch.load(folder / "checkpoints" / f"{name}.ckpt", weights_only=True)[
        "state_dict"
    ]
    return found


def finish(process: subprocess.Popen[str]) -> None:
    """Wait for a run, which must succeed."""
    try:
        _, errors = process.communicate(timeout=600)
    except BaseException:
        process.kill()  # its session is its own, so that no signal to the tests reaches it
        raise
    assert process.returncode == 0, errors


def next_save(folder: Path, process: subprocess.Popen[str]) -> float:
    """Wait for the next checkpoint of a run; returns the seconds that took."""
    file, start = folder / "checkpoints" / "last.ckpt", time.monotonic()
    before = _modified(file)
    while process.poll() is None and _modified(file) in (None, before):
        time.sleep(0.02)
    return time.monotonic() - start


def _modified(file: Path) -> int | None:
    """When a file was last written; None if there is none, as for a moment while it is replaced."""
    try:
        return file.stat().st_mtime_ns
    except FileNotFoundError:
        return None


def lives(process: int) -> bool:
    """Whether a process is running, and not a zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
