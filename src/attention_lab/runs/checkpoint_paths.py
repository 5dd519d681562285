"""Find the checkpoints that `ckpt_path` names; it does not import torch."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attention_lab.argument_checks import kind_of
from attention_lab.errors import LabError
from attention_lab.files.regular_files import is_file, is_folder, is_utf8, lexists, matches_in
from attention_lab.files.run_files import BEST, CHECKPOINTS
from attention_lab.runs.path_patterns import expand_paths
from attention_lab.untrusted.plain_files import check_checkpoint_exists

Paths = str | Path | Sequence[str | Path]
_READERS = {
    ".safetensors": "attention_lab.pretrained({0!r}) reads it",
    ".pt2": "torch.export.load({0!r}) reads it",
    ".onnx": "onnxruntime.InferenceSession({0!r}) reads it",
}
"""By the suffix of a file that `stage=export` has written: how to read it."""


def find_checkpoints(given: Paths) -> list[Path]:
    """Find checkpoints given as a file, a run's folder, a pattern such as `logs/*/best.ckpt`, or a list.

    A run's folder stands for its best checkpoint. The matches of a pattern are sorted; if there are folders,
    other files than `.ckpt` files are left out.

    Raises:
        LabError: a file is missing or an exported model, no file matches a pattern, a folder has no best
            checkpoint, or the list is empty.
    """
    several = given if isinstance(given, Sequence) and not isinstance(given, str | bytes) else [given]
    if others := [one for one in several if not isinstance(one, str | Path)]:
        kind = kind_of(others[0])
        raise LabError(f"ckpt_path takes a checkpoint, a run's folder or a list of them, not {kind}")
    paths = [
        _best(path) if is_folder(path) else path
        for one in several
        for path in _without_tables(expand_paths([one], "ckpt_path", "file", lexists))
    ]
    if not paths:
        raise LabError("ckpt_path=[] names no checkpoint; give one or more")
    for path in paths:
        check_checkpoint_exists(path)
        if path.suffix in _READERS:
            reader = _READERS[path.suffix].format(str(path))
            raise LabError(f"ckpt_path={path} is an exported model, not a checkpoint: in Python, {reader}")
    return list(dict.fromkeys(paths))


def _without_tables(matches: list[Path]) -> list[Path]:
    """The matches of one pattern; if there are runs, without the files that a sweep writes beside them."""
    if not any(map(is_folder, matches)):
        return matches
    return [path for path in matches if path.suffix == ".ckpt" or not is_file(path)]


def one_checkpoint(given: Paths | None) -> Path | None:
    """The checkpoint to continue from that `ckpt_path` names, if any.

    Raises:
        LabError: as for `find_checkpoints`, or there are several.
    """
    if given is None:
        return None
    paths = find_checkpoints(given)
    if len(paths) > 1:
        raise LabError(f"stage=fit continues from one checkpoint, but ckpt_path names {len(paths)}")
    return paths[0]


def needed_checkpoints(given: Paths | None, stage: str) -> list[Path]:
    """The checkpoints that `ckpt_path` names for a stage that needs one.

    Raises:
        LabError: as for `find_checkpoints`, none is given, or a path cannot be written to a configuration.
    """
    if given is None:
        raise LabError(f"stage={stage} needs ckpt_path=<run folder>, or one of the checkpoints in it")
    paths = find_checkpoints(given)
    for path in paths:
        if not is_utf8(str(path)):
            raise LabError(f"ckpt_path={path} is not UTF-8: rename it")
    return paths


def run_of(checkpoint: Any) -> Path:
    """The run's folder of a checkpoint; a folder is returned as it is."""
    path = Path(checkpoint)
    return path if is_folder(path) else path.parent.parent


def _best(folder: Path) -> Path:
    """The best checkpoint of the run in a folder. Raises LabError if it has none."""
    best = folder / CHECKPOINTS / BEST
    if is_file(best):
        return best
    others = [path.name for path in matches_in(folder / CHECKPOINTS, "*.ckpt")]
    if others:
        raise LabError(
            f"ckpt_path={folder}: this run has no {BEST}: choose another checkpoint, such as "
            f"{folder}/{CHECKPOINTS}/{others[0]}"
        )
    newest = newest_run(folder, f"{CHECKPOINTS}/{BEST}")
    example = f", such as {newest}" if newest else ""
    raise LabError(
        f"ckpt_path={folder} has no {CHECKPOINTS}/{BEST}: give the folder of a trained run{example}, or a "
        "checkpoint"
    )


def newest_run(folder: Path, part: str) -> Path | None:
    """The folder of the latest run, in a folder or its subfolders, that has the file `part`; None if none."""
    below = matches_in(folder, "*")
    runs = [
        path
        for path in (*below, *(run for one in below for run in matches_in(one, "*")))
        if is_file(path / part)
    ]
    return max(runs, key=lambda run: (run / part).stat().st_mtime, default=None)
