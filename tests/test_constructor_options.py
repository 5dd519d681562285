"""Options that a class takes flat, and gets as one dataclass."""

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attention_lab.constructor_options import common_options, options_of


@dataclass(frozen=True, kw_only=True)
class Small:
    size: int
    heads: int = 2


@dataclass(frozen=True, kw_only=True)
class Large(Small):
    heads: int = 4
    positions: str = "none"


class Model:
    @options_of(Large)
    def __init__(self, mechanism: str, spec: Large) -> None:
        self.mechanism, self.spec = mechanism, spec


class Derived(Model):
    pass


def test_options_make_the_spec() -> None:
    model = Model("dot", size=8, positions="rotary")
    assert model.mechanism == "dot"
    assert model.spec == Large(size=8, positions="rotary")
    assert Model(mechanism="dot", size=8).spec == Large(size=8)  # type: ignore[call-arg]


def test_the_signature_shows_options_and_defaults() -> None:
    parameters = inspect.signature(Model).parameters
    assert list(parameters) == ["mechanism", "size", "heads", "positions"]
    assert parameters["size"].default is inspect.Parameter.empty
    assert parameters["heads"].default == 4
    assert parameters["positions"].annotation is str


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 8, "head": 2}, "got an unexpected keyword argument 'head'; did you mean 'heads'?"),
        (
            {"size": 8, "colour": 2},
            "got an unexpected keyword argument 'colour'; the options are mechanism, size, heads, positions",
        ),
        ({"heads": 8}, "missing a required argument: 'size'"),
    ],
)
def test_a_wrong_option_is_named_with_the_class(options: dict[str, int], message: str) -> None:
    with pytest.raises(TypeError) as error:
        Derived("dot", **options)  # type: ignore[arg-type]
    # Python 3.12 says "keyword-only argument"
    assert str(error.value).replace("keyword-only ", "") == f"Derived.__init__() {message}"


def test_a_wrong_option_of_a_spec_is_its_own_error() -> None:
    class Checked:
        @options_of(Positive)
        def __init__(self, spec: Positive) -> None:
            raise AssertionError("not reached")

    with pytest.raises(ValueError, match="above 0"):
        Checked(size=0)


@dataclass(frozen=True)
class Positive:
    size: int

    def __post_init__(self) -> None:
        if self.size <= 0:
            raise ValueError("size must be above 0")


def test_shared_options() -> None:
    assert common_options(Large(size=8, positions="rotary"), Small) == {"size": 8, "heads": 4}
    assert common_options(Small(size=8), Large) == {"size": 8, "heads": 2}


@dataclass(frozen=True)
class Wrapper:
    """Has one required field, so that it can be made from a class alone."""

    part: type
    option: int = 0


@dataclass(frozen=True)
class Counts:
    words: int
    letters: int


class Reader:
    @options_of(Small)
    def __init__(self, wrapper: Wrapper, counts: Counts, spec: Small) -> None:
        pass


class Words:
    counts = Counts(1, 2)


@pytest.mark.parametrize(
    ("wrapper", "counts", "complaint"),
    [
        (Model, Words.counts, "wrapper must be a Wrapper, not the class Model: write Wrapper(Model)"),
        (Model("dot", size=8), Words.counts, "wrapper must be a Wrapper, not a Model"),
        (Wrapper(Model), Counts, "counts must be a Counts, not the class Counts"),
        (Wrapper(Model), None, "counts must be a Counts, not a NoneType"),
        (Wrapper(Model), Words(), "counts must be a Counts, not a Words: give its .counts"),
    ],
)
def test_an_argument_of_another_class_is_named(wrapper: Any, counts: Any, complaint: str) -> None:
    with pytest.raises(TypeError) as error:
        Reader(wrapper, counts, size=8)
    assert str(error.value) == f"Reader: {complaint}"
    Reader(Wrapper(Model), Words.counts, size=8)


@dataclass(frozen=True)
class Table:
    file: str
    standardize: bool = True


class Regression:
    @options_of(Table)
    def __init__(self, spec: Table) -> None:
        self.spec = spec


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"file": None}, "file must be text, not None"),
        ({"file": 3}, "file must be text, not 3"),
        ({"file": "a", "standardize": "no"}, "standardize must be True or False, not 'no'"),
        ({"file": "a", "standardize": None}, "standardize must be True or False, not None"),
    ],
)
def test_a_switch_is_not_a_text_and_a_text_is_not_a_number(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(TypeError) as error:
        Regression(**options)
    assert str(error.value) == f"Regression: {complaint}"
    assert Regression("a", 0).spec.standardize is False  # type: ignore[arg-type]
    assert Regression(Path("a"), np.bool_(False)).spec == Table(Path("a"), False)  # type: ignore[arg-type]
