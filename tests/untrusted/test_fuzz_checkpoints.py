"""Damaged checkpoints load or are rejected in one line that names the file; none of them runs code."""

import random
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from damage import damaged, harmless, tampered

import attention_lab
from attention_lab.attention import Gaussian
from attention_lab.errors import LabError
from attention_lab.experiment.build import make_data, make_task
from attention_lab.files.run_files import RECIPE
from attention_lab.untrusted.checkpoints import read_checkpoint

COUNTS = [pytest.param(25, id="some"), pytest.param(250, id="many", marks=pytest.mark.slow)]
CONFIG: dict[str, Any] = {
    "scoring": {"_target_": "attention_lab.attention.Gaussian", "_partial_": True},
    "normalizer": {"_target_": "attention_lab.attention.Softmax", "_partial_": True},
    "pooling": {"_target_": "attention_lab.attention.Soft", "_partial_": True},
    "window": {"_target_": "attention_lab.attention.Global", "_partial_": True},
    "model": {"_target_": "attention_lab.models.KernelRegression", "needs": "regression"},
    "task": {"_target_": "attention_lab.tasks.Regression"},
    "data": {"_target_": "attention_lab.data.Sine", "kind": "regression", "train_size": 8},
}


class MyGaussian(Gaussian):
    """A class of another package."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """An untrained kernel regression."""
    data = make_data(CONFIG)
    task = make_task(CONFIG, data.sizes, data.codec, trainable=False)
    torch.save({"state_dict": task.state_dict(), RECIPE: task.recipe}, tmp_path / "mine.ckpt")
    return tmp_path / "mine.ckpt"


def _use(path: Path) -> list[str]:
    with harmless("mine.ckpt") as said:
        attention_lab.load(path).predict(["1"])
    return said


@pytest.mark.parametrize("count", COUNTS)
def test_damaged(path: Path, count: int) -> None:
    assert _use(path) == []
    for content in damaged(path.read_bytes(), count):
        path.write_bytes(content)
        _use(path)


@pytest.mark.parametrize("count", COUNTS)
def test_tampered(path: Path, count: int) -> None:
    content, chance = torch.load(path, weights_only=True), random.Random(0)
    for _ in range(count):
        part = chance.choice([RECIPE, RECIPE, RECIPE, "state_dict"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.save({**content, part: tampered(content[part], chance)}, path)
        _use(path)


def test_checkpoints_that_would_exhaust_memory_are_refused(path: Path) -> None:
    content = torch.load(path, weights_only=True)
    large = {
        **content,
        RECIPE: {**content[RECIPE], "sizes": {**content[RECIPE]["sizes"], "samples": 2**31 - 1}},
    }
    nested: list[Any] = []
    for _ in range(60):
        nested = [nested] * 2
    endless: list[Any] = []
    endless.append(endless)
    deep: list[Any] = []
    for _ in range(150):
        deep = [deep]
    for bad, said in [
        (large, "far fewer"),
        (
            {**content, "state_dict": {"x": torch.zeros(1).expand(10**12)}},
            "plain values and complete tensors",
        ),
        ({**content, RECIPE: nested}, "plain values and complete tensors"),
        ({**content, RECIPE: endless}, "plain values and complete tensors"),
        ({**content, RECIPE: deep}, "plain values and complete tensors"),
    ]:
        torch.save(bad, path)
        assert said in _use(path)[0]


def test_a_compressed_checkpoint_is_not_decompressed(path: Path) -> None:
    torch.save({**torch.load(path, weights_only=True), "more": torch.zeros(1_000_000)}, path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    assert path.stat().st_size < 100_000
    assert "it is compressed" in _use(path)[0]


def test_classes_of_an_allowed_package(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    from types import ModuleType

    mine = ModuleType("my_package")
    mine.MyGaussian, mine.os = MyGaussian, __import__("os")  # type: ignore[attr-defined]
    monkeypatch.setattr(MyGaussian, "__module__", "my_package")
    monkeypatch.setitem(sys.modules, "my_package", mine)
    content = read_checkpoint(path)
    content[RECIPE]["config"]["scoring"]["_target_"] = "my_package.MyGaussian"
    torch.save(content, path)
    hint = r"add 'allow=\[my_package\]' \(in Python, allow=\['my_package'\]\)"
    with pytest.raises(LabError, match=f"names 'my_package.MyGaussian'.*{hint}$"):
        attention_lab.load(path)
    with pytest.raises(
        LabError, match=r"as in 'allow=\[my_package\]' \(in Python, allow=\['my_package'\]\)$"
    ):
        attention_lab.load(path, allow="my_package")
    for others in (
        ["other"],
        ["my_pack"],
        "my_package",
        [None],
        [5],
        [""],
        ["my_package."],
        {"my_package": 1},
    ):
        with pytest.raises(LabError):
            attention_lab.load(path, allow=others)
    trained = attention_lab.load(path, allow=["my_package"])
    assert isinstance(trained.model.attention.score, MyGaussian)
    for target in ("my_package.os.mkdir", "my_package.os", "os.mkdir"):
        content[RECIPE]["config"]["scoring"]["_target_"] = target
        torch.save(content, path)
        with pytest.raises(LabError, match="not loaded"):
            attention_lab.load(path, allow=["my_package"])


def test_the_program_of_an_allowed_package_is_not_run(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "a_package_with_a_program"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(f"open({str(tmp_path / 'run')!r}, 'w')\nclass Score: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    content = read_checkpoint(path)
    content[RECIPE]["config"]["scoring"]["_target_"] = f"{package.name}.__main__.Score"
    torch.save(content, path)
    with pytest.raises(LabError, match=r"__main__\.Score"):
        attention_lab.load(path, allow=[package.name])
    assert not (tmp_path / "run").exists()
