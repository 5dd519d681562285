"""The commands of the guide to user-defined parts, run with the classes and YAML files that it gives."""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "own-model.md").read_text(encoding="utf-8")
MODULES = {
    "scores": ["SquaredDot", "Metric"],
    "parts": ["SquaredRelu"],
    "models": ["OneQuery"],
    "seq2seq": ["Convolutional"],
    "data": ["Series", "Dates"],
    "tasks": ["WithNorm"],
}
CONFIGURATIONS = {
    "scoring/squared_dot": "SquaredDot",
    "model/one_query": "OneQuery",
    "model/convolutional": "Convolutional",
    "data/series": "Series",
}
COMMANDS = [
    line.split("#")[0].strip().removeprefix("python train.py ")
    for line in re.findall(r"^python train\.py .*", GUIDE, re.MULTILINE)
    if " -m " not in line and "MyCallback" not in line
]


def _block(language: str, word: str) -> str:
    """The block of the guide in this language that has a word."""
    blocks: list[str] = re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)
    (found,) = [block for block in blocks if word in block]
    return found


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The files that the guide asks for, in the current folder."""
    for module, classes in MODULES.items():
        file = tmp_path / "my_package" / f"{module}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text("\n".join(_block("python", f"class {name}") for name in classes))
    for name, word in CONFIGURATIONS.items():
        file = tmp_path / "my_conf" / f"{name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(_block("yaml", f".{word}\n"))
    series = (tmp_path / "my_conf" / "data" / "series.yaml").read_text()
    dates = series.replace("classification", "transduction").replace("Series", "Dates")
    dates = re.sub(r"  file: .*", "  train_size: 100", dates)
    (tmp_path / "my_conf" / "data" / "dates.yaml").write_text(dates)
    splits = ("train", "validation", "test")
    inputs = {f"{split}_x": np.random.default_rng(0).normal(size=(9, 6, 2)) for split in splits}
    labels = {f"{split}_y": np.array(["rise", "fall", "flat"] * 3) for split in splits}
    np.savez(tmp_path / "my.npz", **inputs, **labels)  # type: ignore[arg-type]
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in [one for one in sys.modules if one.partition(".")[0] == "my_package"]:
        del sys.modules[name]  # the next test has one of its own


def test_the_guide_has_these_commands() -> None:
    assert len(COMMANDS) == 10
    assert {name for name in MODULES if any(f"my_package.{name}." in one for one in COMMANDS)} == {
        *("scores", "parts", "tasks")
    }


@pytest.mark.slow
@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_of_the_guide_runs(line: str, command: Callable[..., Any], own_folder: Path) -> None:
    given = [one.strip("'") for one in line.split()]
    short = ["trainer.max_epochs=1", "+trainer.limit_train_batches=2", "pictures=1"]
    done = command(*given, *short)
    assert done.status == 0, done.err
    assert (done.folder / "metrics.json").exists()
