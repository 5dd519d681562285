"""Classes with abstract methods cannot be used without them."""

import importlib
import inspect
import pkgutil

import pytest
import torch
from torch import nn

import attention_lab
from attention_lab.models.transduction import TransductionModel
from attention_lab.tasks import Task
from attention_lab.tasks.classification import LabelPrediction

NOT_IMPORTED = ("__main__", "_kernels")
"""A program, and modules that import Triton, which is not installed everywhere."""


def test_every_class_with_an_abstract_method_is_abstract() -> None:
    """The mark alone does nothing: the method would return None."""
    names = [one.name for one in pkgutil.walk_packages(attention_lab.__path__, "attention_lab.")]
    modules = [importlib.import_module(name) for name in names if not name.endswith(NOT_IMPORTED)]
    classes = {
        one
        for module in modules
        for one in vars(module).values()
        if isinstance(one, type) and one.__module__ == module.__name__
    }
    marked = {
        one
        for one in classes
        if any(getattr(inspect.getattr_static(one, name), "__isabstractmethod__", False) for name in dir(one))
    }
    assert {TransductionModel, Task, LabelPrediction} <= marked
    assert {one.__qualname__ for one in marked if not inspect.isabstract(one)} == set()


@pytest.mark.parametrize(
    ("base", "missing"),
    [(TransductionModel, "encode"), (Task, "answer"), (Task, "observe"), (LabelPrediction, "logits")],
)
def test_an_error_names_the_missing_method(base: type, missing: str) -> None:
    given = {name: lambda *_: None for name in base.__abstractmethods__ if name != missing}
    with pytest.raises(TypeError, match=rf"class Mine .*\b{missing}\b"):
        type("Mine", (base,), given)()


def test_a_model_of_ones_own_works() -> None:
    class Mine(TransductionModel):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(3, 2)

        def encode(self, source, source_lengths):
            return self.embed(source)

    encoded = Mine().encode(torch.tensor([[1, 2]]), torch.tensor([2]))
    assert encoded.shape == (1, 2, 2)
