"""Which options a class has and what they may be, as the checks of options see it."""

import importlib
import sys
from pathlib import Path

import pytest

from attention_lab.errors import LabError
from attention_lab.experiment.part_options import check_typed_option
from attention_lab.untrusted.configuration import check_values

CODE = """
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from attention_lab.constructor_options import options_of

if TYPE_CHECKING:
    from nowhere import Unknown


class Base:
    def __init__(self, depth: int, width: float = 1.0, plain=None) -> None:
        self.depth = depth


class Mixin:
    pass


class Inherited(Base):
    pass


class PassesOn(Mixin, Base):
    def __init__(self, more: str, width: int = 1, **options: Any) -> None:
        super().__init__(width=width, **options)


class ForTheCheckerOnly:
    def __init__(self, depth: int, unknown: Unknown | None = None) -> None:
        pass


@dataclass
class Data:
    depth: int


class WithSpec:
    @options_of(Data)
    def __init__(self, spec: Data) -> None:
        pass


class Pair(NamedTuple):
    depth: int


class Made:
    def __new__(cls, depth: int) -> Made:
        return super().__new__(cls)


class Nothing:
    pass


class Failure(Exception):
    pass


def function(depth: int) -> None:
    pass


class Factory:
    def __call__(self, depth: int) -> None:
        pass

    @classmethod
    def make(cls, depth: int) -> Factory:
        return cls()


factory = Factory()
make = Factory.make
"""


@pytest.fixture(autouse=True)
def classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_classes.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_classes", raising=False)
    importlib.import_module("own_classes")


@pytest.mark.parametrize(
    ("name", "options", "unknown"),
    [
        ("Base", ["depth", "width", "plain"], ["self", "more"]),
        ("Inherited", ["depth", "width", "plain"], ["more"]),
        ("PassesOn", ["more", "width", "depth", "plain"], ["nothing"]),
        ("ForTheCheckerOnly", ["depth", "unknown"], ["more"]),
        ("Data", ["depth"], ["more"]),
        ("WithSpec", ["depth"], ["spec", "more"]),
        ("Pair", ["depth"], ["more"]),
        ("Made", ["depth"], ["more"]),
        ("Nothing", [], ["more"]),
        ("function", ["depth"], ["more"]),
        ("factory", ["depth"], ["more"]),
        ("make", ["depth"], ["more"]),
    ],
)
def test_options_that_a_class_has(name: str, options: list[str], unknown: list[str]) -> None:
    for option in options:
        check_typed_option("model", option, f"own_classes.{name}")
    for option in unknown:
        with pytest.raises(LabError, match=rf"^model\.{option} is not an option of {name}: "):
            check_typed_option("model", option, f"own_classes.{name}")


@pytest.mark.parametrize(
    ("name", "option", "right", "wrong"),
    [
        ("Base", "depth", 3, "x"),
        ("Base", "plain", "x", None),
        ("Inherited", "width", 0.5, "x"),
        ("PassesOn", "more", "x", 3),
        ("PassesOn", "width", 3, 0.5),
        ("PassesOn", "depth", 3, "x"),
        ("ForTheCheckerOnly", "unknown", "x", None),
        ("Pair", "depth", 3, "x"),
        ("Data", "depth", 3, "x"),
        ("Failure", "depth", "x", None),
        ("Nothing", "depth", "x", None),
        ("function", "depth", 3, "x"),
    ],
)
def test_types_of_options_in_a_file_from_others(name: str, option: str, right: object, wrong: object) -> None:
    node = {"_target_": f"own_classes.{name}"}
    check_values({**node, option: right}, "file")
    if wrong is not None:
        with pytest.raises(LabError, match=rf"^file has {option}={wrong}: it must be "):
            check_values({**node, option: wrong}, "file")
