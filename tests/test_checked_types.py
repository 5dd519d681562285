"""What the tests' own check of types and shapes accepts and rejects."""

import importlib
import sys
from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from checked_types import check_types, first_calls_checked
from jaxtyping import TypeCheckError
from torch import Tensor

from attention_lab.attention import lengths_mask

SAMPLE = """
from collections.abc import Iterator
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

def scale(x: Float[Tensor, "B N"], factor: int) -> Float[Tensor, "B N"]:
    return x * factor

def add(x: Float[Tensor, "B N"], y: Float[Tensor, "B N"] | None = None) -> Float[Tensor, "B N"]:
    return x if y is None else scale(x[:, :1], 1) + y[:, :1]

def first(x: Float[Tensor, "B N"], size: int) -> Float[Tensor, "B {size}"]:
    return x[:, : size + size // 4]

def rows(x: Float[Tensor, "B N"]) -> Iterator[Tensor]:
    yield from x

def name(layer: int) -> str:
    return f"layer {layer}" if layer else None

@dataclass
class Pair:
    query: Float[Tensor, "B D"]
    key: Float[Tensor, "B D"]

    def first(self) -> Float[Tensor, " D"]:
        return self.query
"""


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    folder = tmp_path_factory.mktemp("checked")
    (folder / "sample_of_checked_types.py").write_text(SAMPLE)
    finders, path = sys.meta_path[:], sys.path[:]
    try:
        sys.path.insert(0, str(folder))
        check_types(["sample_of_checked_types"])
        return importlib.import_module("sample_of_checked_types")
    finally:
        sys.meta_path[:], sys.path[:] = finders, path


def test_right_types_and_shapes_pass(sample: ModuleType) -> None:
    x = torch.arange(6.0).view(2, 3)
    assert torch.equal(sample.scale(x, factor=2), 2 * x)
    assert torch.equal(sample.add(x), x)
    assert torch.equal(sample.first(x, 2), x[:, :2])
    assert len(list(sample.rows(x))) == 2
    assert sample.name(3) == "layer 3"
    assert sample.Pair(x, x).key is x
    assert torch.equal(sample.scale(sample.scale(x[:1], 1), 1), x[:1])  # the sizes of each call are its own


@pytest.mark.parametrize(
    "call",
    [
        lambda sample, x: sample.scale(x.long(), 2),
        lambda sample, x: sample.scale(x[0], 2),
        lambda sample, x: sample.scale(x, 2.0),
        lambda sample, x: sample.add(x, x[:1]),
        lambda sample, x: sample.first(x, 4),  # returns 5
        lambda sample, x: sample.add(x, x),  # the result has other sizes than the arguments
        lambda sample, x: sample.rows(x[0]),
        lambda sample, x: sample.name("3"),
        lambda sample, x: sample.name(0),  # returns None
        lambda sample, x: sample.Pair(x, x[:, :4]),
        lambda sample, x: sample.Pair(x, x).first(),
    ],
)
def test_wrong_ones_are_rejected(sample: ModuleType, call: Callable[[ModuleType, Tensor], object]) -> None:
    with pytest.raises(TypeCheckError):
        call(sample, torch.ones(2, 5))


def test_the_first_calls_alone_are_checked_on_demand(sample: ModuleType) -> None:
    with first_calls_checked(2):
        assert sample.name(1) == "layer 1"
        with pytest.raises(TypeCheckError):
            sample.name("2")
        assert sample.name("3") == "layer 3"
    with pytest.raises(TypeCheckError):
        sample.name("4")


def test_the_package_is_checked() -> None:
    with pytest.raises(TypeCheckError):
        lengths_mask(torch.tensor([1.0]), 3)
    with pytest.raises(TypeCheckError):
        lengths_mask(torch.tensor([1]), "3")  # type: ignore[arg-type]
