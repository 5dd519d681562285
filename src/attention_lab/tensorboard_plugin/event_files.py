"""Find and read a run's TensorBoard event files."""

import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from attention_lab.errors import LabError
from attention_lab.files.regular_files import is_utf8, matches_in
from attention_lab.machine import check_fits_in_memory
from attention_lab.tensorboard_plugin import PLUGIN
from attention_lab.tensorboard_plugin.codec import decode
from attention_lab.tensorboard_plugin.event_sizes import needed_memory
from attention_lab.tensorboard_plugin.page import Blobs

Point = tuple[int, float]
"""A step and a value."""

Sample = tuple[str, ...]
"""Input, output and expected output."""

SAMPLES = "samples"
"""The tag under which a run writes samples as a Markdown table."""
_PATTERN = "*tfevents*"
_EARLIER = "tensorboard"
_DAMAGED = 10_000  # most damaged events that are skipped
_MOST_SAMPLES, _LONGEST = 200, 1 << 20  # most lines and bytes of the table of samples


def event_files(folder: Path) -> list[Path]:
    """The event files in a folder, sorted."""
    return matches_in(folder, _PATTERN)


def event_folder(run: Path) -> Path:
    """The folder of a run's event files: the run's own folder, or for older runs `tensorboard` in it."""
    earlier = run / _EARLIER
    return earlier if event_files(earlier) and not event_files(run) else run


@dataclass(frozen=True)
class Log:
    """The contents of a run's event files.

    Attributes:
        curves: numbers over steps, by tag.
        records: header and body of each attention record, by tag and step.
        samples: the samples of the last step that wrote any.
    """

    curves: dict[str, list[Point]]
    records: dict[str, dict[int, Blobs]]
    samples: list[Sample]


def read_log(folder: Path) -> Log:
    """Read the event files in a folder; invalid records are left out.

    Raises:
        LabError: as `check_logs` does.
    """
    check_logs([folder])
    if not event_files(folder):
        return Log({}, {}, [])
    accumulator = _load(folder)
    records: dict[str, dict[int, Blobs]] = {}
    try:
        tags = accumulator.PluginTagToContent(PLUGIN)
    except KeyError:  # no attention was logged
        tags = {}
    for tag in sorted({*tags} & {*accumulator.Tags()["tensors"]}):
        for event in accumulator.Tensors(tag):
            blobs = tuple(event.tensor_proto.string_val)
            if _is_record(blobs):
                records.setdefault(tag, {})[event.step] = (blobs[0], blobs[1])
    return Log(_curves(accumulator), records, _samples(accumulator))


def read_curves(folder: Path) -> dict[str, list[Point]]:
    """Read the curves alone in the event files of a folder. Raises LabError as `check_logs` does."""
    check_logs([folder])
    return _curves(_load(folder, tensors=1)) if event_files(folder) else {}


def check_logs(folders: Iterable[Path]) -> None:
    """Check the event files of runs before TensorBoard reads them: it would open them, whatever they are.

    Raises:
        LabError: an event file is not a regular file, is too large or claims to have an enormous event, a
            folder's name is not UTF-8 or like that of an event file, or they all need more memory than this
            machine has.
    """
    kept = most = 0
    for folder in folders:
        after, during = _needed_memory(folder, event_files(folder))
        most = max(most, kept + during)
        kept += after
        task = f"{folder}: reading its event files and those before them"
        check_fits_in_memory(max(most, kept), task, "leave some out")


def _needed_memory(folder: Path, files: Sequence[Path]) -> tuple[int, int]:
    """See `needed_memory`. Raises the LabErrors of `check_logs`."""
    if files and not is_utf8(str(folder)):
        raise LabError(f"{folder} contains event files, but its name is not UTF-8: rename it")
    if files and fnmatch(folder.name, _PATTERN):
        raise LabError(f"{folder} contains event files, but is itself named like an event file: rename it")
    try:
        return needed_memory(files)
    except OSError as error:
        path = error.filename or folder  # an error while reading does not name the file
        raise LabError(f"{path} cannot be read: {error.strerror}; move it out of the folder") from None


def _load(folder: Path, tensors: int = 0) -> Any:
    """The EventAccumulator with the contents of the event files in a folder.

    Args:
        folder: the folder.
        tensors: the most tensors of each tag to keep; 0 for all.
    """
    # Slow to import, and not needed to find the files.
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    logging.getLogger("tensorboard").setLevel(logging.CRITICAL)  # its warnings repeat tags, whatever they are
    kept = {"scalars": 0, "tensors": tensors, "images": 1}  # 0 means all
    # Our runs write no restarts; for each, TensorBoard would look for events to remove among all before it.
    accumulator = EventAccumulator(str(folder), size_guidance=kept, purge_orphaned_data=False)
    for _ in range(_DAMAGED):
        try:
            accumulator.Reload()
            break
        except (DecodeError, LookupError, TypeError, ValueError):  # reading continues after the damaged event
            continue
    return accumulator


def _curves(accumulator: Any) -> dict[str, list[Point]]:
    return {
        tag: [(event.step, event.value) for event in accumulator.Scalars(tag)]
        for tag in accumulator.Tags()["scalars"]
    }


def _samples(accumulator: Any) -> list[Sample]:
    tag = f"{SAMPLES}/text_summary"
    if tag not in accumulator.Tags()["tensors"]:
        return []
    written = accumulator.Tensors(tag)[-1].tensor_proto.string_val
    lines = written[0][:_LONGEST].decode("utf-8", "replace").splitlines() if written else []
    rows = [re.findall(r"(?<=\| )(?:`([^`]*)`)?(?= \|)", line) for line in lines[:_MOST_SAMPLES]]
    return [tuple(row) for row in rows if len(row) == 3]


def _is_record(blobs: Sequence[bytes]) -> bool:
    try:
        header, body = blobs
        decode(header, body)
    except ValueError:
        return False
    return True
