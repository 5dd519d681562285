"""Signals that arrive before training, or in stages without it."""

import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from attention_lab import experiment
from attention_lab.errors import Stopped
from attention_lab.interruption import signals
from attention_lab.interruption.signals import DeferredSignals, held_back, raise_on_signals


def _swallowed(signum: signal.Signals) -> None:
    """Receive a signal where exceptions are dropped, as in a finalizer or while a C++ library imports."""
    with suppress(BaseException):
        signal.raise_signal(signum)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_that_a_library_dropped_is_raised_before_training(signum: signal.Signals) -> None:
    handlers = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]
    with raise_on_signals():
        _swallowed(signum)
        with pytest.raises(Stopped) as stopped, DeferredSignals():
            pass
    assert stopped.value.signum == signum
    assert [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)] == handlers


def test_a_stop_of_one_job_does_not_stop_the_next() -> None:
    with raise_on_signals():
        _swallowed(signal.SIGTERM)
    with raise_on_signals(), DeferredSignals() as deferred:
        assert deferred.signum is None


def test_no_stop_is_raised_inside_an_import() -> None:
    imported = []

    def import_library() -> None:
        with held_back():
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)  # `timeout` sends two
            imported.append("library")

    with raise_on_signals():
        with pytest.raises(Stopped):
            import_library()
        with pytest.raises(Stopped):  # from now on at once
            signal.raise_signal(signal.SIGTERM)
    assert imported == ["library"]


def test_a_stop_takes_precedence_over_a_failed_import() -> None:
    def import_library() -> None:
        with held_back():
            signal.raise_signal(signal.SIGINT)
            raise ImportError

    with raise_on_signals(), pytest.raises(Stopped):
        import_library()


def test_a_signal_repeated_during_an_import_ends_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    monkeypatch.setattr(signals, "exit_at_once", lambda signum, _: ended.append(signum))
    monkeypatch.setattr(signals, "SAME_SIGNAL_SECONDS", 0.0)
    with raise_on_signals(), suppress(Stopped), held_back():
        signal.raise_signal(signal.SIGINT)
        assert ended == []
        signal.raise_signal(signal.SIGINT)
        assert ended == [signal.SIGINT]


@pytest.mark.parametrize("stage", ["report", "leaderboard", "test"])
def test_a_stopped_report_leaves_no_folder(
    stage: str, command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(_: object) -> None:
        raise Stopped(signal.SIGTERM)

    monkeypatch.setattr(experiment, "choose_stage", lambda _: stopped)
    done = command(f"stage={stage}", f"run={tmp_path}", folder=tmp_path / "logs" / "run")
    assert done.status == 143 and not (tmp_path / "logs").exists()
