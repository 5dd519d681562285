"""The command line in a forked process: its cost, its output, and whether it touched the canary."""

import contextlib
import gc
import hashlib
import os
import resource
import shutil
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import NamedTuple

import torch
from command import load_program
from hostile import BASES, Case

REPOSITORY = Path(__file__).parents[2]
SECONDS = 30
MEGABYTES = 1024
"""What a process may take beyond what is normal."""


class Outcome(NamedTuple):
    """The outcome of a case: exit status, standard error, seconds, peak megabytes, and any fault found."""

    status: int
    err: str
    seconds: float
    megabytes: float
    fault: str | None


def fingerprint(folder: Path) -> str:
    """Of every name, mode and byte below a folder."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        found.update(f"{path.relative_to(folder)} {path.lstat().st_mode} ".encode())
        if path.is_file():
            found.update(path.read_bytes())
    return found.hexdigest()


def prepare(root: Path) -> float:
    """The trained bases, and the canary: a tree outside of every run's folder.

    Returns the megabytes that training them took at most.
    """
    most = 0.0
    canary = root / "canary"
    (canary / "below" / "deeper").mkdir(parents=True)
    for name in (
        "file",
        "kept.ckpt",
        "best.ckpt",
        "last.ckpt",
        "metrics.csv",
        "events.out.tfevents.1",
        "x.part",
    ):
        (canary / name).write_text("precious")
        (canary / "below" / "deeper" / f".{name}.part").write_text("precious")
    for base, options in BASES.items():
        arguments = [*options, "trainer.max_epochs=2", f"hydra.run.dir={root / base}"]
        done = run(root, Case(base, "", lambda _: None, arguments))
        assert done.status == 0, done.err
        most = max(most, done.megabytes)
        (root / base / "metrics.json").rename(root / base / "finished.json")
        shutil.copy(root / base / "finished.json", root / base / "metrics.json")
        for file in (root / base / "checkpoints").glob("*.ckpt"):
            content = torch.load(file, weights_only=True)
            if "attention_lab_state" in content:
                content["attention_lab_state"]["done"] = False
                torch.save(content, file)
    return most


def run(root: Path, case: Case) -> Outcome:
    """Run a case in a process of its own."""
    place = root / "case"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    if case.base:
        shutil.copytree(root / case.base, place / "run", symlinks=True)
        case.alter(place / "run")
        if case.arguments[0].startswith("resume="):
            with contextlib.suppress(OSError):
                (place / "run" / "metrics.json").unlink()
    before = fingerprint(root / "canary")
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        _be(place, case.arguments)
    seconds, most, killed, stopped = _watch(child, place)
    err = (place / "err").read_text(errors="replace")
    out = (place / "out.txt").read_text(errors="replace")
    status = killed if killed is not None else seconds[1]
    fault = None
    if fingerprint(root / "canary") != before:
        fault = "the canary was touched"
    elif killed is not None:
        fault = f"killed after {seconds[0]:.0f} s with {most:.0f} MB"
    elif "Traceback" in err + out:
        fault = "a traceback"
    elif status not in (0, 143) and [line[:7] for line in err.splitlines() if line[:8] != "Resume: "] != [
        "Error: "
    ]:
        fault = "not one line"
    elif status == 143 and not stopped:
        fault = "ended by itself as if stopped"
    return Outcome(status, err, seconds[0], most, fault)


def _watch(child: int, place: Path) -> tuple[tuple[float, int], float, int | None, bool]:
    """Wait for a process: its seconds of the processor and status, its memory; whether it had to be ended."""
    began, most, stopped = time.monotonic(), 0.0, False
    while True:
        done, status, used = os.wait4(child, os.WNOHANG)
        if done:
            spent = used.ru_utime + used.ru_stime
            return (spent, os.waitstatus_to_exitcode(status)), max(most, 0.0), None, stopped
        with contextlib.suppress(OSError, ValueError, IndexError):
            pages = int(Path(f"/proc/{child}/statm").read_text().split()[1])
            most = max(most, pages * resource.getpagesize() / 2**20)
        passed = time.monotonic() - began
        if not stopped and passed > SECONDS and "epoch " in (place / "out.txt").read_text(errors="replace"):
            os.kill(child, signal.SIGTERM)  # it trains on and on, as it was told to
            stopped, began = True, time.monotonic()
        elif passed > 2 * SECONDS or most > 4 * MEGABYTES:
            os.kill(child, signal.SIGKILL)
            os.wait4(child, 0)
            return (passed, -9), most, -9, stopped
        time.sleep(0.02)


def _be(place: Path, arguments: list[str]) -> None:
    """In the forked process: the command line, its output in files."""
    status = 70
    gc.freeze()  # to look at what was there before is to copy the memory of the process that was forked
    try:
        os.chdir(place)
        for name, number in (("out.txt", 1), ("err", 2)):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        sys.stdout, sys.stderr = os.fdopen(1, "w", buffering=1), os.fdopen(2, "w", buffering=1)
        sys.argv = [str(REPOSITORY / "train.py"), *arguments]
        os.environ["HYDRA_MAIN_MODULE"] = "__main__"
        warnings.simplefilter("default")  # as in a program, and not as in tests
        status = _main()
    except BaseException:  # noqa: BLE001  # nothing may reach the process that was forked
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _main() -> int:
    train = load_program()
    try:
        train.prepare_command_line()
        train.main()
    except SystemExit as end:
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
            return 1
        return int(end.code or 0)
    return 0
