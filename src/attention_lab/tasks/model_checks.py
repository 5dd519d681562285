"""Checks of models, which may be user-defined: what a task needs of them, and what they return."""

import math
from collections.abc import Sequence

from torch import Tensor, nn

from attention_lab.argument_checks import check_number, kind_of
from attention_lab.errors import LabError
from attention_lab.models.decoding.sampling import Continuable
from attention_lab.models.ensemble import Ensemble
from attention_lab.models.kernel_regression import KernelRegression
from attention_lab.models.transduction import TransductionModel

SYMBOLS = "example, step and symbol"
"""The axes of the logits of a model that generates symbols."""


def check_transduction_model(model: object) -> None:
    """Raise LabError if a model other than an ensemble lacks what training or generation needs."""
    name = type(model).__name__
    if isinstance(model, Ensemble):
        return
    if not isinstance(model, TransductionModel):
        raise LabError(f"{name} must derive from attention_lab.models.TransductionModel")
    if not callable(getattr(getattr(model, "decoder", None), "start", None)):
        raise LabError(f"{name} needs a decoder with a method start")
    if model.alignment is not None and model.alignment not in dict(model.named_modules()):
        raise LabError(f"{name}.alignment names {model.alignment!r}, but there is no such module")


def check_continuable(model: object) -> None:
    """Raise LabError if a language model cannot be sampled from."""
    if not isinstance(model, Continuable):
        raise LabError(f"{type(model).__name__} needs length, start and step to be sampled from")
    check_number(f"{type(model).__name__}.length", model.length, least=1, whole=True)


def check_regression_model(model: object) -> None:
    """Raise LabError if a model does not memorise the training set, as plots of its weights require."""
    if not isinstance(model, KernelRegression):
        name = type(model).__name__
        raise LabError(
            f"{name} must derive from attention_lab.models.KernelRegression, whose samples are plotted"
        )


def checked_logits(model: nn.Module, logits: object, expected: Sequence[int], axes: str) -> Tensor:
    """The logits of a model. Raises LabError if it returned anything else.

    Args:
        model: the model, for the message.
        logits: the value that it returned.
        expected: the shape of the logits; axes in the middle may be joined.
        axes: what the axes are, in words.
    """
    if isinstance(logits, Tensor) and logits.is_floating_point():
        shape = list(logits.shape)
        ends = shape[:1] + shape[-1:] == [expected[0], expected[-1]]
        if ends and 1 < len(shape) <= len(expected) and logits.numel() == math.prod(expected):
            return logits
        given = str(shape)
    else:
        given = str(logits.dtype) if isinstance(logits, Tensor) else kind_of(logits)
    raise LabError(
        f"{type(model).__name__} must return floating-point logits {list(expected)}, one for each {axes}, "
        f"not {given}"
    )


def first_not_finite(model: nn.Module) -> str:
    """The name of the first parameter with values that are NaN or infinite; empty if there is none."""
    return next((name for name, one in model.named_parameters() if not bool(one.isfinite().all())), "")
