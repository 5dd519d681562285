"""Checkpoints are found by file, run folder, list and pattern."""

import os
from pathlib import Path
from typing import Any

import pytest

from attention_lab.errors import LabError
from attention_lab.runs.checkpoint_paths import find_checkpoints, needed_checkpoints, one_checkpoint, run_of


def make_run(folder: Path, *names: str) -> Path:
    (folder / "checkpoints").mkdir(parents=True)
    for name in names:
        (folder / "checkpoints" / name).touch()
    return folder


def test_a_run_folder_stands_for_its_best_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a = make_run(tmp_path / "a", "best.ckpt", "last.ckpt")
    b = make_run(tmp_path / "b", "best.ckpt")
    best = [a / "checkpoints" / "best.ckpt", b / "checkpoints" / "best.ckpt"]
    assert find_checkpoints(a) == find_checkpoints([a, best[0]]) == best[:1]
    assert find_checkpoints(str(tmp_path / "*")) == find_checkpoints([a, b]) == best
    assert one_checkpoint(a) == best[0]
    assert run_of(a) == run_of(best[0]) == a
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_checkpoints("~/a") == best[:1]


def test_a_pattern_for_runs_leaves_out_the_tables_beside_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the folder of a sweep."""
    run = make_run(tmp_path / "0_seed=1", "best.ckpt")
    table, other, broken = (tmp_path / name for name in ("leaderboard.csv", "other.ckpt", "run"))
    table.touch()
    pattern = str(tmp_path / "*")
    assert find_checkpoints(pattern) == [run / "checkpoints" / "best.ckpt"]
    assert table in find_checkpoints([pattern, table])
    monkeypatch.setenv("HOME", str(tmp_path))
    assert table in find_checkpoints(["~/*", "~/leaderboard.csv"])
    assert find_checkpoints(str(tmp_path / "l*")) == [table]
    other.touch()
    assert other in find_checkpoints(pattern)
    broken.symlink_to(tmp_path / "missing")
    with pytest.raises(LabError, match="a link that leads to no file"):
        find_checkpoints(pattern)


def test_a_folder_without_a_best_checkpoint(tmp_path: Path) -> None:
    stopped = make_run(tmp_path / "stopped", "last.ckpt")
    with pytest.raises(LabError) as found:
        find_checkpoints(stopped)
    assert str(found.value) == (
        f"ckpt_path={stopped}: this run has no best.ckpt: choose another checkpoint, such as "
        f"{stopped}/checkpoints/last.ckpt"
    )
    with pytest.raises(LabError) as found:
        find_checkpoints(tmp_path)
    assert str(found.value) == (
        f"ckpt_path={tmp_path} has no checkpoints/best.ckpt: "
        "give the folder of a trained run, or a checkpoint"
    )
    trained = make_run(tmp_path / "seq2seq" / "a", "best.ckpt")
    newer = make_run(tmp_path / "seq2seq" / "b", "best.ckpt")
    os.utime(trained / "checkpoints" / "best.ckpt", (1, 1))
    for folder in (tmp_path, tmp_path / "seq2seq"):
        with pytest.raises(LabError, match=rf"give the folder of a trained run, such as {newer}, or a check"):
            find_checkpoints(folder)
    with pytest.raises(LabError, match=r"ckpt_path=none\.ckpt: no such file"):
        one_checkpoint("none.ckpt")


@pytest.mark.parametrize(
    ("given", "kind"),
    [({}, "a dict"), (3, "an int"), (b"best.ckpt", "a bytes"), (["best.ckpt", None], "a NoneType")],
)
def test_anything_but_a_path_is_rejected(given: Any, kind: str) -> None:
    with pytest.raises(LabError, match=f"takes a checkpoint, a run's folder or a list of them, not {kind}"):
        find_checkpoints(given)


@pytest.mark.parametrize(
    ("name", "reader"),
    [
        ("model.safetensors", r"attention_lab\.pretrained"),
        ("model.encoder.pt2", r"torch\.export\.load"),
        ("model.onnx", r"onnxruntime\.InferenceSession"),
    ],
)
def test_an_exported_model_is_no_checkpoint(tmp_path: Path, name: str, reader: str) -> None:
    path = tmp_path / name
    path.touch()
    said = rf"is an exported model, not a checkpoint: in Python, {reader}\('.*{name}'\) reads it$"
    with pytest.raises(LabError, match=rf"^ckpt_path=.*{name} {said}"):
        find_checkpoints(path)


def test_what_is_not_a_file_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.ckpt")
    (tmp_path / "loop.ckpt").symlink_to("loop.ckpt")
    (tmp_path / "gone.ckpt").symlink_to("nowhere")
    for path, problem in (
        (tmp_path / "pipe.ckpt", "it is a pipe, not a regular file"),
        (Path("/dev/zero"), "it is a device, not a regular file"),
        (tmp_path / "loop.ckpt", "it is a link that leads to no file"),
        (tmp_path / "gone.ckpt", "it is a link that leads to no file"),
        (tmp_path / "none.ckpt", "no such file; a run's checkpoints are in its folder checkpoints/"),
    ):
        with pytest.raises(LabError) as found:
            find_checkpoints(path)
        assert str(found.value) == f"ckpt_path={path}: {problem}"


def test_a_pattern_leaves_out_no_broken_link(tmp_path: Path) -> None:
    """An ensemble would silently be smaller."""
    make_run(tmp_path / "a", "best.ckpt")
    make_run(tmp_path / "b")
    loop = tmp_path / "b" / "checkpoints" / "best.ckpt"
    loop.symlink_to(loop.name)
    with pytest.raises(LabError) as found:
        find_checkpoints(f"{tmp_path}/*/checkpoints/best.ckpt")
    assert str(found.value) == f"ckpt_path={loop}: it is a link that leads to no file"


def test_a_folder_whose_name_no_configuration_can_hold(tmp_path: Path) -> None:
    """A pattern finds folders from others; as an option, such a name is rejected at once."""
    make_run(tmp_path / os.fsdecode(b"\xff"), "best.ckpt")
    with pytest.raises(LabError, match="is not UTF-8: rename it"):
        needed_checkpoints(str(tmp_path / "*"), "test")
