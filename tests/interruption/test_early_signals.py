"""Ctrl-C and SIGTERM while the program is starting."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from attention_lab.errors import Stopped
from attention_lab.interruption.early_signals import exit_at_once, exit_on_signals
from attention_lab.interruption.signals import raise_on_signals

REPOSITORY = Path(__file__).parents[2]
SIGNALS = (signal.SIGINT, signal.SIGTERM)
PROGRAM = """
import os, signal, sys
from attention_lab.interruption.early_signals import exit_on_signals
exit_on_signals()
try:
    os.kill(os.getpid(), int(sys.argv[1]))
finally:
    print("no exception reaches a library")
"""


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    before = {signum: signal.getsignal(signum) for signum in SIGNALS}
    for signum, usual in zip(SIGNALS, (signal.default_int_handler, signal.SIG_DFL), strict=True):
        signal.signal(signum, usual)
    yield
    for signum, handler in before.items():
        signal.signal(signum, handler)


@pytest.mark.parametrize("signum", SIGNALS)
def test_the_program_ends_without_a_traceback(signum: signal.Signals) -> None:
    command = [sys.executable, "-c", PROGRAM, str(int(signum))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (128 + signum, "", "")


def test_a_run_handles_its_signals_itself() -> None:
    exit_on_signals()
    for signum in SIGNALS:
        with pytest.raises(Stopped), raise_on_signals():
            signal.raise_signal(signum)
        assert signal.getsignal(signum) is exit_at_once


def test_ignored_signals_stay_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in a background job
    exit_on_signals()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    assert signal.getsignal(signal.SIGTERM) is exit_at_once


@pytest.mark.parametrize("option", ["launcher=joblib", "sweep=optuna"])
@pytest.mark.parametrize("signum", SIGNALS)
def test_a_sweep_that_cleans_up(signum: signal.Signals, option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise joblib's jobs would run on, and a search would wait two minutes for its trial."""
    monkeypatch.setattr(sys, "argv", ["train.py", option, "-m"])
    exit_on_signals()
    with pytest.raises(SystemExit) as end:
        signal.raise_signal(signum)
    assert end.value.code == 128 + signum
    with pytest.raises(Stopped), raise_on_signals():  # a job in this process, as with one at once
        signal.raise_signal(signum)


@pytest.mark.parametrize("signum", SIGNALS)
def test_a_finalizer_that_drops_the_exception_does_not_drop_the_signal(
    signum: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search went on as if there had been no signal."""
    monkeypatch.setattr(sys, "argv", ["train.py", "-m", "sweep=optuna"])
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)

    class Finalized:
        def __del__(self) -> None:
            signal.raise_signal(signum)

    def work() -> None:
        Finalized()
        time.sleep(5)

    exit_on_signals()
    with pytest.raises(SystemExit) as end:
        work()
    assert end.value.code == 128 + signum


STOPPED_SWEEP = """
import runpy, signal, sys
from attention_lab.interruption.early_signals import exit_on_signals
from attention_lab.leaderboard.hydra_callback import LeaderboardCallback
exit_on_signals()
begin = LeaderboardCallback.on_job_start
def begin_and_stop(callback, *arguments, **options):
    begin(callback, *arguments, **options)
    signal.raise_signal(signal.SIGINT)
LeaderboardCallback.on_job_start = begin_and_stop
runpy.run_path(sys.argv.pop(1), run_name="__main__")
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "end", "said"),
    [
        (["-m"], "  stopped\n", "resume the sweep with its own command and resume=auto hydra.sweep.dir="),
        (["sweep=optuna"], "  stopped\n", "continue the search with its own command\n"),
        (["-m", "stage=leaderboard"], "=1  ", ""),
    ],
    ids=["sweep", "search", "no training"],
)
def test_a_sweep_stopped_between_jobs_says_how_to_go_on(
    options: list[str], end: str, said: str, tmp_path: Path
) -> None:
    folder = f"hydra.sweep.dir={tmp_path / 'sweep'}"
    command = [sys.executable, "-c", STOPPED_SWEEP, str(REPOSITORY / "train.py"), *options, "seed=1", folder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 130
    assert done.stdout.endswith(end)
    assert done.stderr.startswith("Stopped by SIGINT; ") if said else not done.stderr
    assert said in done.stderr
