"""The arguments with which a model is called on the inputs that a user gives."""

from collections import UserDict, namedtuple
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from attention_lab.attention.recording.call_arguments import arguments_of

X, Y = torch.ones(2), torch.zeros(2)
Pair = namedtuple("Pair", ["x", "y"])


class Columns:
    """Columns by name; iteration gives rows."""

    def keys(self) -> list[str]:
        return ["x"]

    def __iter__(self) -> Iterator[Any]:
        yield from X

    def __getitem__(self, name: str) -> Any:
        return {"x": X}[name]


@pytest.mark.parametrize(
    ("inputs", "positional", "named"),
    [
        (X, (X,), {}),
        (None, (None,), {}),
        ("text", ("text",), {}),
        ([X, Y], ([X, Y],), {}),
        ((X, Y), (X, Y), {}),
        (Pair(X, Y), (X, Y), {}),
        ((), (), {}),
        ({"x": X, "y": Y}, (), {"x": X, "y": Y}),
        (UserDict(x=X), (), {"x": X}),
        (Columns(), (), {"x": X}),
    ],
    ids=["tensor", "none", "text", "list", "tuple", "named tuple", "nothing", "dict", "user dict", "keys"],
)
def test_inputs_become_arguments(inputs: Any, positional: tuple[Any, ...], named: dict[str, Any]) -> None:
    assert arguments_of(lambda *arguments, **options: None, inputs) == (positional, named)


@pytest.mark.parametrize(
    ("function", "whole"),
    [
        (lambda batch: None, True),  # as in many a LightningModule
        (lambda features, **options: None, True),  # as in sentence-transformers
        (lambda x, y: None, False),
        (lambda x, **options: None, False),
        (lambda other, y: None, False),  # the names are wrong
        (lambda x: None, False),  # the batch has targets, too
        (lambda *arguments, **options: None, False),  # a wrapper
        (getattr, False),  # without a signature
    ],
)
def test_a_mapping_may_be_the_one_argument(function: Any, whole: bool) -> None:
    inputs = {"x": X, "y": Y}
    assert arguments_of(function, inputs) == (((inputs,), {}) if whole else ((), inputs))
