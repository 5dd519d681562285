"""Activations of additive scores, and how each is computed for all pairs without tanh or a branch."""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "gelu": F.gelu,
    "silu": F.silu,
    "sigmoid": torch.sigmoid,
}
"""The activations of additive scores; `leaky_relu` has the slope 0.2 of graph attention (1710.10903)."""


_aten = torch.ops.aten


class Form(NamedTuple):
    """An activation f of z = a + b, as a function of a simpler quantity s that is computed for each pair.

    With s = state(enter(a), enter(b)): f(z) = offset + scale value(s), and f'(z) = gain slope(s).

    Attributes:
        enter: computed once for each query and each key.
        state: s from x and y, written to the third argument if given; symmetric in x and y.
        value: a function of s; may be s itself.
        slope: a function of s, written to the second argument if given and possible.
        offset: see above.
        scale: see above.
        gain: see above.
    """

    enter: Callable[[Tensor], Tensor]
    state: Callable[[Tensor, Tensor, Tensor | None], Tensor]
    value: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor, Tensor | None], Tensor]
    offset: float = 0.0
    scale: float = 1.0
    gain: float = 1.0


def _itself(x: Tensor) -> Tensor:
    return x


def _sum(x: Tensor, y: Tensor, out: Tensor | None) -> Tensor:
    return torch.add(x, y, out=out)


def _rational(x: Tensor, y: Tensor, out: Tensor | None) -> Tensor:
    return torch.addcmul(x.new_ones(()), x, y, out=out).reciprocal_()


def _logistic_slope(r: Tensor, out: Tensor | None) -> Tensor:
    return torch.addcmul(r, r, r, value=-1, out=out)


def _slope_of(backward: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor | None], Tensor]:
    """The derivative, from PyTorch's own backward function."""
    return lambda z, out: backward(z.new_ones(()).expand_as(z), z)


LOGISTIC = {"tanh": -2.0, "sigmoid": 1.0}
"""The activations that are linear in the logistic function of a rate times z."""


def _logistic(rate: float, offset: float, scale: float) -> Form:
    """`offset + scale r` with r = sigmoid(rate z): exact for every z, with one exponential per pair."""

    def state(x: Tensor, y: Tensor, out: Tensor | None) -> Tensor:
        z = torch.add(x, y, out=out)
        return (z if rate == 1 else z.mul_(rate)).sigmoid_()

    return Form(_itself, state, _itself, _logistic_slope, offset, scale, gain=scale * rate)


FORMS: dict[str, Form] = {
    "tanh": _logistic(LOGISTIC["tanh"], offset=1.0, scale=-2.0),
    "sigmoid": _logistic(LOGISTIC["sigmoid"], offset=0.0, scale=1.0),
    "relu": Form(_itself, _sum, torch.relu, _slope_of(lambda g, z: _aten.threshold_backward(g, z, 0.0))),
    "leaky_relu": Form(
        _itself,
        _sum,
        ACTIVATIONS["leaky_relu"],
        _slope_of(lambda g, z: _aten.leaky_relu_backward(g, z, 0.2, False)),
    ),
    "gelu": Form(_itself, _sum, F.gelu, _slope_of(_aten.gelu_backward)),
    "silu": Form(_itself, _sum, F.silu, _slope_of(_aten.silu_backward)),
}
"""The form of each activation, valid for any finite input."""

_LIMITS = {torch.float32: (30.0, 50.0), torch.float64: (300.0, 340.0)}


def rational(activation: str, a: Tensor, b: Tensor) -> Form | None:
    """Give tanh or sigmoid of a + b with only a division per pair, if the range of a or b allows it.

    r = sigmoid(rate (a + b)) = 1 / (1 + E_a E_b) with E_a = exp(-rate a) and E_b = exp(-rate b). The
    exponents are clamped to [-W, W]. This is exact up to rounding if the exponents of one side (either one)
    lie within [-A, A], A < W. The other side may then be anything. Where its exponent is clamped to W, both
    the true and the clamped sum of exponents are at least W - A, so r and its slope r (1 - r) are below
    exp(A - W) in either case; where it is clamped to -W, the same holds for 1 - r. In float32 A = 30, W =
    50: 2e-9, far below the rounding of 1; in float64 300 and 340: 4e-18. Products stay within exp(A + W),
    so they neither overflow nor vanish: exp(80) in float32, exp(640) in float64. Nothing cancels: the
    relative error of E_a E_b is that of two exponentials and a product, even for a = 50 and b = -49.9;
    added to 1, it gives r an absolute error no larger. A NaN stays in the row of its own query or key.

    Returns:
        The form, or None if both sides have larger exponents (for tanh, |a| and |b| above 15 in float32) or
        contain a NaN.
    """
    rate = LOGISTIC.get(activation)
    if rate is None:
        return None
    bound, most = _LIMITS[a.dtype]
    if not any(_largest(side) * abs(rate) <= bound for side in (a, b)):
        return None
    return FORMS[activation]._replace(enter=lambda x: (x * -rate).clamp_(-most, most).exp_(), state=_rational)


def _largest(x: Tensor) -> float:
    low, high = torch.stack(torch.aminmax(x)).tolist() if x.numel() else (0.0, 0.0)
    return float("nan") if low != low else max(-low, high)
