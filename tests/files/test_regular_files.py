"""Only regular files are read: nothing waits for a pipe, a device or a socket."""

import os
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from folders import RATE, make_run
from hypothesis import given
from hypothesis import strategies as st

from attention_lab.data import (
    CSVRegression,
    GraphFiles,
    ImageFiles,
    Inflection,
    Labelled,
    LabelledImages,
    Pairs,
    Text,
    TimeSeries,
)
from attention_lab.data.reading.image_files import read_image
from attention_lab.errors import LabError
from attention_lab.experiment.inputs import read_inputs
from attention_lab.files.regular_files import open_regular, read_regular, read_up_to
from attention_lab.files.run_files import ERROR, METRICS
from attention_lab.inference.pretrained import pretrained
from attention_lab.interruption.folder_check import check_folder_writable
from attention_lab.interruption.resume import find_last_checkpoint
from attention_lab.interruption.resume_option import expand_resume
from attention_lab.report import report_page
from attention_lab.runs.checkpoint_paths import find_checkpoints, run_of
from attention_lab.runs.rates_by_example import read_rates_by_example
from attention_lab.runs.recorded_failures import read_reason
from attention_lab.runs.run_folder import find_runs, read_job
from attention_lab.tensorboard_plugin.event_files import event_folder, read_log
from attention_lab.untrusted.checkpoints import read_checkpoint
from attention_lab.untrusted.plain_files import read_small_text

SECONDS = 10
KINDS = ("pipe", "device", "socket", "directory")


@pytest.fixture(autouse=True)
def _no_waiting() -> Iterator[None]:
    def late(*_: object) -> None:
        raise AssertionError(f"waits for {SECONDS} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def put(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, Path], Path]]:
    """`put("pipe", path)` puts something else in the place of a file."""
    sockets = []

    def put_one(kind: str, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "device":
            path.symlink_to("/dev/zero")
        elif kind == "directory":
            path.mkdir()
        else:
            monkeypatch.chdir(path.parent)  # the address of a socket is short
            sockets.append(socket.socket(socket.AF_UNIX))
            sockets[-1].bind(path.name)
        return path

    yield put_one
    for one in sockets:
        one.close()


READERS: dict[str, Callable[[Path], Any]] = {
    "csv": lambda path: CSVRegression(file=str(path)).setup(),
    "pairs": lambda path: Pairs(file=str(path)).setup(),
    "inflection": lambda path: Inflection(file=str(path)).setup(),
    "labelled": lambda path: Labelled(train_file=str(path), validation_file="x", test_file="x").setup(),
    "labelled images": lambda path: LabelledImages(file=str(path)).setup(),
    "series": lambda path: TimeSeries(file=str(path)).setup(),
    "text": lambda path: Text(file=str(path)).setup(),
    "pictures": lambda path: ImageFiles(file=str(path)).setup(),
    "nodes": lambda path: GraphFiles("edges", str(path)).setup(),
    "image": lambda path: read_image(path, 16, 8),
    "small file": lambda path: read_small_text(path),
    "inputs": lambda path: read_inputs(str(path)),
    "events": lambda path: read_log(path.parent),
    "first line": read_reason,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reader", READERS)
def test_anything_but_a_regular_file_is_rejected_in_one_line(
    reader: str, kind: str, put: Callable[[str, Path], Path], tmp_path: Path
) -> None:
    path = put(kind, tmp_path / "events.out.tfevents.1")
    with pytest.raises(LabError) as caught:
        READERS[reader](path)
    text = str(caught.value)
    assert path.name in text and f"it is a {kind}, not a regular file" in text and "\n" not in text


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["metrics.json", "config.yaml", ".hydra/hydra.yaml", ERROR])
def test_a_run_folder_with_something_else_in_it_is_read_without_waiting(
    name: str, kind: str, put: Callable[[str, Path], Path], tmp_path: Path
) -> None:
    run = make_run(tmp_path / "run", {RATE: 0.1}, edits=[0, 1])
    put(kind, run / name)
    job = read_job(run)
    if name == METRICS:
        with pytest.raises(LabError, match=rf"metrics\.json cannot be read: it is a {kind}"):
            report_page._read(job, "run")


def test_a_pipe_in_the_place_of_predictions_is_passed_over(
    put: Callable[[str, Path], Path], tmp_path: Path
) -> None:
    run = make_run(tmp_path / "run", {RATE: 0.125}, edits=[0, 1])
    assert read_rates_by_example(read_job(run), RATE) is not None
    put("pipe", run / "predictions.tsv")
    assert read_rates_by_example(read_job(run), RATE) is None


def test_a_pipe_as_a_checkpoint(put: Callable[[str, Path], Path], tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"ckpt_path=.*/x\.ckpt: it is a pipe, not a regular file"):
        read_checkpoint(put("pipe", tmp_path / "x.ckpt"))


def test_a_pipe_that_takes_the_place_of_a_file_while_it_is_opened(
    put: Callable[[str, Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_text("x")
    opened = os.open

    def swap(name: Any, flags: int, *rest: Any) -> int:
        monkeypatch.undo()
        return opened(put("pipe", path), flags, *rest)

    monkeypatch.setattr(os, "open", swap)
    descriptors = len(list(Path("/dev/fd").iterdir()))
    with pytest.raises(OSError, match="it is a pipe, not a regular file"):
        open_regular(path)
    assert len(list(Path("/dev/fd").iterdir())) == descriptors


@given(content=st.binary(max_size=64), most=st.integers(0, 64))
def test_no_more_is_read_than_allowed(
    content: bytes, most: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "content"
    path.write_bytes(content)
    if len(content) <= most:
        assert read_regular(path, most) == content
    else:
        with pytest.raises(OSError, match=f"it is larger than {most} bytes"):
            read_regular(path, most)


def test_a_file_that_claims_to_be_empty_and_has_no_end(tmp_path: Path) -> None:
    with Path("/dev/zero").open("rb") as endless, pytest.raises(OSError, match="it is larger than 4 MiB"):
        read_up_to(endless, 4 << 20, tmp_path)
    assert b"Name" in read_regular("/proc/self/status", 1 << 20)  # its size is given as 0


def test_a_large_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        os.truncate(file.fileno(), 1 << 40)  # takes no room on the disk
    with pytest.raises(LabError, match=r"large: it is larger than 1024 MiB"):
        Text(file=str(path)).setup()
    shutil.move(path, tmp_path / "events.out.tfevents.1")
    with pytest.raises(LabError, match=r"tfevents.1 cannot be read: it is larger than 4096 MiB"):
        read_log(tmp_path)


@pytest.mark.parametrize(
    "read",
    [
        *(find_checkpoints, pretrained, read_inputs),
        lambda path: expand_resume([f"resume={path}"], Path("conf")),
        lambda path: check_folder_writable([f"hydra.run.dir={path}"]),
    ],
)
def test_a_path_that_is_too_long_is_refused_in_one_line(read: Callable[[str], Any]) -> None:
    with pytest.raises(LabError) as caught:
        read("x" * 5000)
    assert len(str(caught.value).splitlines()) == 1
    assert run_of("x" * 5000 + "/a/b").name == "x" * 5000


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b"])
@pytest.mark.parametrize("reader", [one for one in READERS if one != "events"])
def test_a_path_that_no_file_can_have_is_refused_in_one_line(reader: str, name: str, tmp_path: Path) -> None:
    """A configuration, a checkpoint or a list of images from others may name it."""
    with pytest.raises(LabError, match="no file can have this name") as caught:
        READERS[reader](tmp_path / name)
    assert len(str(caught.value).splitlines()) == 1


def test_streams_of_the_command_line_are_read_to_their_end(tmp_path: Path) -> None:
    reads, writes = os.pipe()
    try:
        os.write(writes, "é\r\nb\n".encode())
        os.close(writes)
        assert read_inputs(f"/dev/fd/{reads}") == ["é", "b"]
    finally:
        os.close(reads)
    with pytest.raises(LabError, match="inputs=/dev/fd/987: Bad file descriptor"):
        read_inputs("/dev/fd/987")


@pytest.mark.parametrize("closed", ["run", "run/checkpoints", "run/.hydra"])
def test_folders_that_may_not_be_searched(
    closed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An archive from others may have folders without permissions; other runs are still read."""
    run, good = make_run(tmp_path / "run", {RATE: 0.5}), make_run(tmp_path / "good", {RATE: 0.5})
    (run / "checkpoints").mkdir()
    stat = os.stat

    def refused(path: Any, *args: Any, **options: Any) -> os.stat_result:
        """The answer of the system for files in such a folder; it would refuse nothing to root."""
        if isinstance(path, str | Path) and str(path).startswith(f"{tmp_path / closed}/"):
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, *args, **options)

    monkeypatch.setattr(os, "stat", refused)
    assert [job.folder for job in find_runs([tmp_path]) if job.error is None][:1] == [good]
    assert read_job(run).folder == run
    assert find_last_checkpoint(run) is None
    with pytest.raises(LabError, match=r"^ckpt_path=.* has no checkpoints/best.ckpt"):
        find_checkpoints(run)
    if closed == "run":
        assert read_log(event_folder(run)).curves == {}
        with pytest.raises(LabError, match=r"no runs found; the folder of a run has config\.yaml"):
            report_page._runs(run)
        with pytest.raises(LabError, match="that is not the folder of a run"):
            expand_resume([f"resume={run}"], tmp_path)
