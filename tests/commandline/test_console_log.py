"""train.log contains the console's output, with times, versions and options."""

import errno
import io
import logging
import os
import re
import signal
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from attention_lab.commandline.console_log import LOGGER, LogFile, logged_console

CONF = Path(__file__).parents[2] / "conf"
LINES = 5000
NW = ("model=nw", "data.train_size=20", "trainer.max_epochs=2", "pictures=0")


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> pytest.LogCaptureFixture:
    """What the logger receives, even after a run in this process has sent it to a file only."""
    logger = logging.getLogger(LOGGER)
    monkeypatch.setattr(logger, "propagate", True)
    monkeypatch.setattr(logger, "handlers", [])
    caplog.set_level(logging.INFO, logger=LOGGER)
    return caplog


def test_lines_are_logged_as_the_console_shows_them(
    log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    console = io.StringIO()
    monkeypatch.setattr(sys, "stdout", console)
    monkeypatch.setattr(sys, "stderr", console)
    with logged_console(["seed=2"]):
        sys.stdout.write("first ")
        sys.stdout.write("line\n")
        for step in range(3):
            sys.stderr.write(f"\r{step}/3 \x1b[32m███\x1b[0m")
        sys.stderr.write("\r\x1b[KWarning: careful\n")
        assert sys.stdout.getvalue() is not None  # type: ignore[attr-defined]  # all else is the stream's
    assert sys.stdout is console
    said = [(record.levelname, record.message) for record in log.records]
    assert said[1:] == [("INFO", "Options: seed=2"), ("INFO", "first line"), ("WARNING", "Warning: careful")]
    assert "torch 2." in said[0][1]
    assert console.getvalue().startswith("first line\n\r0/3")


def test_an_option_with_the_name_of_a_folder_from_others_controls_no_terminal(
    log: pytest.LogCaptureFixture,
) -> None:
    with logged_console(["run=logs/\x1b[2J\u202ea\nb", "notes='a\tb'"]):
        pass
    assert log.records[1].message == "Options: run=logs/�[2J�a�b notes='a\tb'"


def test_how_a_run_ended_is_logged(log: pytest.LogCaptureFixture) -> None:
    with pytest.raises(SystemExit), logged_console([]):
        sys.exit("Error: no such file")
    assert log.records[-1].message == "Error: no such file"
    with pytest.raises(ZeroDivisionError), logged_console([]):
        sys.stdout.write(str(1 / 0))
    assert log.records[-1].message.endswith("ZeroDivisionError: division by zero")


@pytest.mark.long
def test_the_log_of_a_run(command: Any) -> None:
    done = command(*NW)
    assert done.status == 0, done.err
    lines = (done.folder / "train.log").read_text().splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d (INFO|WARNING) ", line) for line in lines)
    said = [line[28:].rstrip() for line in lines]
    assert said[1] == f"Options: {' '.join(NW)}"
    assert said[2:] == [line.rstrip() for line in done.out.splitlines() if line.strip()]


@pytest.mark.parametrize("choice", ["disabled", "none"])
def test_another_choice_of_logging_replaces_ours(choice: str) -> None:
    """Ours would lack the handlers that it changes."""
    choices = [f"hydra/{group}_logging={choice}" for group in ("job", "hydra")]
    with initialize_config_dir(str(CONF), version_base="1.3"):
        chosen = compose("config", choices, return_hydra_config=True).hydra
    for group in ("job_logging", "hydra_logging"):
        file = resources.files("hydra.conf") / "hydra" / group / f"{choice}.yaml"
        assert chosen[group] == OmegaConf.create(file.read_text())


class _Full(io.StringIO):
    def write(self, _: str) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_log_on_a_full_disk_prints_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The run ends with one line about the results, which the disk has no room for, either."""
    log, handler = logging.Logger("full"), LogFile(tmp_path / "train.log", delay=True)
    log.addHandler(handler)
    handler.setStream(_Full())  # type: ignore[arg-type]
    log.info("a line")
    assert capfd.readouterr().err == ""
    log.info("%d", "no number")  # in code of the user's own
    assert "TypeError" in capfd.readouterr().err


class _Broken(io.StringIO):
    def write(self, _: str) -> int:
        raise RuntimeError("no line can be written")


def test_an_error_in_writing_the_log_is_printed_once(
    log: pytest.LogCaptureFixture, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is printed about it is not logged in its turn, without end."""
    handler = LogFile(tmp_path / "train.log", delay=True)
    handler.setStream(_Broken())  # type: ignore[arg-type]
    logging.getLogger(LOGGER).addHandler(handler)
    with logged_console([], output=False):
        capsys.readouterr()
        sys.stderr.write("a line\n")
    assert capsys.readouterr().err.count("RuntimeError: no line can be written") == 1


def test_signals_may_log_while_a_line_is_written(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """SLURM sends two signals at a job's time limit, and submitit logs both."""
    file = tmp_path / "train.log"
    log, handler = logging.Logger("signals"), LogFile(file)
    log.addHandler(handler)
    logged = 0

    def log_signal(*_: Any) -> None:
        nonlocal logged
        logged += 1
        log.warning("a signal")

    before = signal.signal(signal.SIGALRM, log_signal)
    try:
        for number in range(LINES):
            signal.setitimer(signal.ITIMER_REAL, 1e-6 * (1 + number % 50))  # often during the write
            log.info("a line")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        handler.close()
    assert capfd.readouterr().err == ""
    lines = file.read_text().splitlines()
    assert lines.count("a line") == LINES and lines.count("a signal") == logged > 0
