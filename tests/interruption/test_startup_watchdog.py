"""How a run of several processes ends while it is starting."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from killed_runs import lives
from lightning_fabric.strategies.launchers.subprocess_script import _ChildProcessObserver

from attention_lab.errors import Stopped
from attention_lab.interruption import exit_messages, startup_watchdog
from attention_lab.interruption.ranks import FIRST_PROCESS
from attention_lab.interruption.signals import DeferredSignals, raise_on_signals
from attention_lab.interruption.startup_watchdog import StartupWatchdog

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def codes(monkeypatch) -> list[int]:
    """Collects the exit statuses instead of ending the process."""
    found: list[int] = []

    def stop(stopped: Stopped, folder: Path, training: bool) -> None:
        assert training
        raise SystemExit(128 + stopped.signum)

    monkeypatch.setattr(startup_watchdog.os, "_exit", found.append)
    monkeypatch.setattr(startup_watchdog, "GRACE", 0.3)
    monkeypatch.setattr(startup_watchdog, "TICK", 0.02)
    monkeypatch.setattr(exit_messages, "exit_after_signal", stop)
    monkeypatch.setenv(FIRST_PROCESS, "0")  # so that it is restored afterwards
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    return found


@pytest.fixture
def other() -> Iterator["subprocess.Popen[bytes]"]:
    """Another process of the run."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


class _Observer(_ChildProcessObserver):
    """Lightning's observer, which only notes when it would kill all processes."""

    killed = False

    def _terminate_all(self) -> None:
        self.killed = True


@pytest.fixture
def observer(other) -> _Observer:
    """What watches the other process for Lightning."""
    return _Observer(os.getpid(), [other])


@contextmanager
def _starting(process: "subprocess.Popen[bytes]", folder: Path) -> Iterator[DeferredSignals]:
    """A run that is starting, with another process."""
    with (
        raise_on_signals(),
        DeferredSignals() as deferred,
        StartupWatchdog(deferred, lambda: [process], folder),
    ):
        yield deferred


def _wait(codes: list[int], seconds: float = 20) -> list[int]:
    end = time.monotonic() + seconds
    while not codes and time.monotonic() < end:
        time.sleep(0.01)
    return codes


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_all_processes(signum: signal.Signals, codes, other, tmp_path: Path) -> None:
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    with _starting(other, tmp_path) as deferred:
        os.kill(os.getpid(), signum)
        assert _wait(codes) == [128 + signum]
        assert deferred.signum == signum
    assert other.wait(20) in (0, -signal.SIGKILL)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == mask
    assert signal.set_wakeup_fd(-1) == -1


@pytest.mark.parametrize("signalled", [True, False])
def test_lightning_does_not_kill_the_first_process_before_it_has_reported(
    signalled: bool, codes, other, observer, tmp_path: Path
) -> None:
    """`timeout` stops all processes at once, and Lightning's observer may look at any time after that."""
    with _starting(other, tmp_path):
        time.sleep(5 * startup_watchdog.TICK)
        if signalled:
            os.kill(os.getpid(), signal.SIGTERM)
        other.terminate()
        while not codes and not observer.killed:
            observer._run()
            time.sleep(0.001)
    assert (observer.killed, codes) == (False, [128 + signal.SIGTERM])


def test_lightning_watches_the_processes_of_a_run_that_has_started(
    codes, other, observer, tmp_path: Path
) -> None:
    with _starting(other, tmp_path) as deferred:
        time.sleep(5 * startup_watchdog.TICK)
        deferred.start_training()
        time.sleep(5 * startup_watchdog.TICK)
        other.terminate()
        other.wait()
        observer._run()
    assert (observer.killed, codes) == (True, [])


def test_a_signal_just_before_training_starts_is_left_to_the_guard(codes, other, tmp_path: Path) -> None:
    with _starting(other, tmp_path) as deferred:
        assert signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])
        signal.raise_signal(signal.SIGTERM)
        deferred.start_training()
        assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
        other.kill()
        assert _wait(codes, seconds=0.6) == []
        assert deferred.signum == signal.SIGTERM


@pytest.mark.sampled(2, rest="long")
@pytest.mark.parametrize(
    ("program", "recorded", "code", "text"),
    [
        ("os.kill(os.getpid(), 9)", False, 1, "Error: another process of this run was killed"),
        ("os.kill(os.getpid(), 15)", False, 143, ""),
        ("sys.exit(130)", False, 130, ""),
        ("sys.exit(0)", False, 1, "Error: another process of this run was killed"),
        ("sys.exit(1)", True, 1, ""),
    ],
)
def test_the_end_of_another_process_ends_this_one(
    program: str, recorded: bool, code: int, text: str, codes, tmp_path: Path, capsys
) -> None:
    reason = tmp_path / "error.txt"
    with (
        subprocess.Popen([sys.executable, "-c", f"import os, sys; {program}"]) as ends,
        raise_on_signals(),
        DeferredSignals() as deferred,
        StartupWatchdog(deferred, lambda: [ends], tmp_path) as watchdog,
    ):
        if recorded:
            reason.write_text("the disk is full\n")
            os.utime(reason, (watchdog.created + 1, watchdog.created + 1))
        assert _wait(codes) == [code]
    errors = capsys.readouterr().err
    assert errors.startswith(text)
    assert errors.count("\n") == bool(text)
    assert reason.is_file() == (recorded or bool(text))


def _below(process: int) -> list[int]:
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [one for child in map(int, children) for one in (child, *_below(child))]


def _start(folder: Path, *before: str) -> "subprocess.Popen[str]":
    """Start a run of two processes that would take minutes."""
    options = ["model=multihead", "trainer.devices=2", "trainer.accelerator=cpu", "threads=1"]
    return subprocess.Popen(
        [*before, sys.executable, str(REPOSITORY / "train.py"), *options, f"hydra.run.dir={folder}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


@pytest.mark.slow
@pytest.mark.parametrize("after", [0.1, 1.5, 4.0])
@pytest.mark.parametrize("to", ["all", "first", "second"])
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_a_starting_run_soon(
    signum: signal.Signals, to: str, after: float, tmp_path: Path
) -> None:
    """`after` counts from the start of the second process, when the first begins to wait for it."""
    process: Any = _start(tmp_path)
    while not _below(process.pid) and process.poll() is None:
        time.sleep(0.02)
    time.sleep(after)
    group = [process.pid, *_below(process.pid)]
    if to == "all":
        os.killpg(process.pid, signum)
    else:
        os.kill(group[0] if to == "first" else group[-1], signum)
    try:
        _, errors = process.communicate(timeout=20)  # for a busy machine: it usually takes one or two
    finally:
        end = time.monotonic() + 5  # a process that has closed its output may take a moment to end
        while any(map(lives, group)) and time.monotonic() < end:
            time.sleep(0.05)
        left = [one for one in group if lives(one)]
        for one in left:
            os.kill(one, signal.SIGKILL)
    if signum != signal.SIGKILL:
        assert process.returncode == 128 + signum, errors
        assert errors.startswith(f"Stopped by {signum.name}; resume with")
    elif to == "second":
        assert process.returncode == 1, errors
        assert errors.startswith("Error: another process of this run was killed")
    else:
        assert process.returncode == -signum
    assert errors.count("\n") == (signum != signal.SIGKILL or to == "second")
    assert left == []


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [2, 4, 6, 8, 10, 12])
def test_the_end_of_a_time_limit(seconds: int, tmp_path: Path) -> None:
    """`timeout` sends one signal to the program and one to all of its processes."""
    process = _start(tmp_path, "timeout", str(seconds))
    start = time.monotonic()
    try:
        _, errors = process.communicate(timeout=seconds + 20)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 124, errors
    assert time.monotonic() - start < seconds + 15
    assert errors.count("\n") <= 1  # nothing is printed before the folder exists
    assert "Traceback" not in errors


def test_a_run_leaves_no_mark_for_later_processes(codes: list[int], tmp_path: Path) -> None:
    with DeferredSignals() as deferred, StartupWatchdog(deferred, list, tmp_path):
        assert os.environ[FIRST_PROCESS] == str(os.getpid())
    assert FIRST_PROCESS not in os.environ
