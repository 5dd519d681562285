"""The line of a sweep's job, on a terminal and elsewhere."""

import io
import sys

import pytest

from attention_lab.job_line import JobLine


class Terminal(io.StringIO):
    """Text whose lines are drawn again."""

    def isatty(self) -> bool:
        return True

    def drawn(self) -> str:
        """The line as it stands now."""
        return self.getvalue().rpartition("\r")[2].removesuffix("\x1b[K")


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Let standard output be a terminal of 40 columns."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", "40")
    return terminal


def test_progress_stands_where_the_result_will(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    line = JobLine()
    line.begin("1/2  seed=1")
    assert terminal.drawn() == "1/2  seed=1  "
    line.show("epoch 1/2", " 50%")
    assert terminal.drawn() == "1/2  seed=1  epoch 1/2   50%"
    line.show("epoch 2/2", " 50%", "error 0.2")
    assert terminal.drawn() == "1/2  seed=1  epoch 2/2   50%  error 0.2", "39 columns"
    line.show("epoch 2/2", " 50%", "error 0.25")
    assert terminal.drawn() == "1/2  seed=1  epoch 2/2   50%", "on some terminals the 40th would begin a line"
    line.show("testing")
    assert terminal.drawn() == "1/2  seed=1  testing"
    line.end("error 0.25  3.0 s")
    assert terminal.getvalue().endswith("\r1/2  seed=1  error 0.25  3.0 s\x1b[K\n")


def test_a_finished_line_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    line = JobLine()
    line.begin("1/2  seed=1")
    line.end("failed")
    before = terminal.getvalue()
    line.show("testing")
    assert terminal.getvalue() == before


@pytest.mark.parametrize("settings", ["x" * 38, "\u7ffb" * 19], ids=["long", "wide"])
def test_settings_that_fill_the_line_leave_no_room(monkeypatch: pytest.MonkeyPatch, settings: str) -> None:
    terminal = on_terminal(monkeypatch)
    line = JobLine()
    line.begin(settings)
    line.show("testing")
    line.end("failed")
    assert terminal.getvalue() == f"{settings}  failed\n"


def test_jobs_that_run_at_the_same_time_have_whole_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    first, second = JobLine(), JobLine()
    first.begin("1/2  seed=1", alone=False)
    second.begin("2/2  seed=2", alone=False)
    second.show("testing")
    second.end("failed")
    first.end("error 0.25  3.0 s")
    assert terminal.getvalue() == "2/2  seed=2  failed\n1/2  seed=1  error 0.25  3.0 s\n"


def test_a_file_gets_no_progress(capsys: pytest.CaptureFixture[str]) -> None:
    line = JobLine()
    line.begin("1/2  seed=1")
    line.show("testing")
    line.end("error 0.25  3.0 s")
    assert capsys.readouterr().out == "1/2  seed=1  error 0.25  3.0 s\n"
