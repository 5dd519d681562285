"""A program works and exits with the right status no matter what its standard streams are."""

import inspect
import io
import json
import os
import select
import subprocess
import sys
from pathlib import Path

import pytest
from folders import RATE, make_run
from hydra._internal.utils import run_and_report

from attention_lab.commandline.console_streams import HYDRA_HINT, Output, Text, prepare

TRAIN = Path(__file__).parents[2] / "train.py"
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
STARTS: dict[str, tuple[str, dict[str, str]]] = {
    "closed output": ('exec "$@" >&-', {}),
    "all closed": ('exec "$@" <&- >&- 2>&-', {}),
    "ASCII": ('exec "$@"', ASCII),
    "ASCII, all closed": ('exec "$@" <&- >&- 2>&-', ASCII),
    "Latin-1": ('exec "$@"', {"PYTHONIOENCODING": "latin-1"}),
    "reader gone": ('"$@" 2>&1 | true; exit ${PIPESTATUS[0]}', {}),
}
OFTEN = ("ASCII", "reader gone")
"""In every run of the tests; how a program with closed streams ends is tested below too."""


def _start(script: str, *arguments: str | bytes, **variables: str) -> subprocess.CompletedProcess[bytes]:
    """Run `python train.py` with these arguments through a shell script."""
    command = [sys.executable, str(TRAIN), *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHONIO")}
    return subprocess.run(
        ["bash", "-c", script, "bash", *command],
        env={**environment, **variables}, capture_output=True, check=False, timeout=300,
    )  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(
    "start",
    [
        pytest.param(one, marks=() if one in OFTEN else pytest.mark.slow)
        for one in STARTS
        if one != "ASCII, all closed"
    ],
)
def test_a_stage_works_however_it_was_started(start: str, tmp_path: Path) -> None:
    script, variables = STARTS[start]
    make_run(tmp_path / "é→" / "run", {RATE: 0.1}, choices={"scoring": "é→"})
    folder = f'"{tmp_path}/é→"'
    done = _start(script, "stage=leaderboard", f"run={folder}", f"hydra.run.dir={folder}", **variables)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "é→" / "leaderboard.csv").read_text(encoding="utf-8").count("\n") == 2
    if start == "ASCII":
        assert b"Leaderboard: " in done.stdout and rb"\xe9\u2192/leaderboard" in done.stdout
    if start == "Latin-1":
        assert rb"\u2192/leaderboard" in done.stdout and "é".encode("latin-1") in done.stdout


@pytest.mark.long
def test_a_run_prints_nothing_of_the_libraries(tmp_path: Path) -> None:
    options = ["model=nw", "data.train_size=5", "trainer.max_epochs=1", "pictures=0"]
    done = _start('exec "$@"', *options, f"hydra.run.dir={tmp_path}")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"Training     model=nw data=sine scoring=gaussian: 5 training examples, ")


@pytest.mark.slow
def test_training_works_without_streams_and_in_ascii(tmp_path: Path) -> None:
    script, variables = STARTS["ASCII, all closed"]
    run = tmp_path / "é→"
    options = ["model=nw", "data.train_size=5", "trainer.max_epochs=1", "pictures=1"]
    done = _start(script, *options, f'hydra.run.dir="{run}"', **variables)
    assert done.returncode == 0
    assert "test/mse" in json.loads((run / "metrics.json").read_text())
    assert (run / "checkpoints" / "best.ckpt").is_file() and any((run / "attention").iterdir())
    assert "é→" in (run / "config.yaml").read_text(encoding="utf-8")


@pytest.mark.long
def test_help_and_errors_exit_as_usual() -> None:
    shown = _start(STARTS["reader gone"][0], "--help")
    assert (shown.returncode, shown.stderr) == (0, b"")
    script, variables = STARTS["ASCII, all closed"]
    assert _start(script, "scoring=é", **variables).returncode == 1


@pytest.mark.long
def test_a_full_disk_behind_the_console_is_reported_in_one_line(tmp_path: Path) -> None:
    make_run(tmp_path / "run", {RATE: 0.1})
    arguments = ("stage=leaderboard", f"run={tmp_path}/run", f"hydra.run.dir={tmp_path}/job")
    done = _start('exec "$@" >/dev/full', *arguments)
    assert done.returncode == 1
    assert done.stderr == b"Error: cannot write to stdout: No space left on device\n"


def test_a_name_that_is_not_utf8_is_refused() -> None:
    done = _start('exec "$@"', b"hydra.run.dir=logs/\xff")
    assert done.returncode == 1
    assert done.stderr == b"Error: hydra.run.dir=logs/\\udcff is not UTF-8: choose another name\n"


def test_output_without_a_reader_is_discarded() -> None:
    reads, writes = os.pipe()
    try:
        output = Output(writes)
        assert output.write(b"read") == 4 and os.read(reads, 9) == b"read"
        os.close(reads)
        assert output.write(b"not read") == 8
        assert output.write(b"nor this") == 8
        assert os.fstat(writes).st_rdev == Path(os.devnull).stat().st_rdev
    finally:
        os.close(writes)


def test_a_message_does_not_land_in_an_unfinished_line(tmp_path: Path) -> None:
    """The line of a job of a sweep stays open until the job ends."""
    file = tmp_path / "both"
    number = os.open(file, os.O_WRONLY | os.O_CREAT)
    try:
        stdout = Output(number)
        stderr = Output(number, above=stdout)
        stdout.write(b"Sweep\n1/2  seed=1  ")
        stderr.write(b"Warning: a\nWarning: b\n")
        stdout.write(b"error 0.1\n")
        stderr.write(b"Warning: c\n")
        for percent in (b"10", b"20"):
            stdout.write(b"\rtraining " + percent + b"%")
        stderr.write(b"Warning: d\n")
        assert file.read_bytes() == (
            b"Sweep\n1/2  seed=1  \nWarning: a\nWarning: b\n1/2  seed=1  error 0.1\nWarning: c\n"
            b"\rtraining 10%\rtraining 20%\nWarning: d\ntraining 20%"
        )
        other = tmp_path / "other"
        with other.open("wb") as elsewhere:
            stdout.write(b"\n2/2  seed=2  ")
            Output(elsewhere.fileno(), above=stdout).write(b"Warning: e\n")
        assert other.read_text() == "Warning: e\n" and file.read_text().endswith("2/2  seed=2  ")
    finally:
        os.close(number)


def test_on_a_terminal_a_message_takes_the_place_of_an_unfinished_line() -> None:
    reads, writes = os.openpty()
    try:
        stdout = Output(writes)
        stdout.write(b"1/2  seed=1  ")
        Output(writes, above=stdout).write(b"Warning: a\n")
        expected, found = b"1/2  seed=1  \r\x1b[KWarning: a\r\n1/2  seed=1  ", b""
        # A terminal may hand over its text in parts.
        while len(found) < len(expected) and select.select([reads], [], [], 10)[0]:
            found += os.read(reads, 99)
        assert found == expected
    finally:
        os.close(reads)
        os.close(writes)


def test_the_last_line_of_a_traceback_is_the_error() -> None:
    """Hydra's advice after it, to see Hydra's own calls as well, helps nobody whose own class has failed."""
    assert f'"\\n{HYDRA_HINT}\\n"' in inspect.getsource(run_and_report)
    raw = io.BytesIO()
    stream = Text(raw, encoding="utf-8", newline="\n")
    for text in ("TypeError: no\n", f"\n{HYDRA_HINT}\n", "bye\n"):
        assert stream.write(text) == len(text)
    stream.flush()
    assert raw.getvalue() == b"TypeError: no\nbye\n"


def test_unbuffered_streams_stay_so() -> None:
    """With PYTHONUNBUFFERED, as in many containers, messages keep their order."""
    code = (
        "import sys; from attention_lab.commandline.console_streams import prepare; prepare()\n"
        "print('first', file=sys.stderr); print('second'); print('third', file=sys.stderr)"
    )
    for unbuffered in ("1", ""):
        done = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True, timeout=60,
        )  # fmt: skip
        order = b"first\nsecond\nthird\n" if unbuffered else b"first\nthird\nsecond\n"
        assert done.stdout == order


def test_windows_is_told_of_wsl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(SystemExit, match=r"^Error: Windows is not supported: run .* in WSL"):
        prepare()


def test_a_current_folder_that_was_removed(tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", "-c", 'rmdir "$PWD"; exec "$@"', "bash", sys.executable, str(TRAIN)],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == "Error: the current folder no longer exists: change to another one\n"
