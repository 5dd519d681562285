"""Additive scores `w^T f(a + b)` of all pairs without a tensor `[..., Q, K, h]`, forward and backward.

`reference` is the plain formula. All other paths give the same results up to rounding:

- small calls use `reference`, because a custom kernel would cost more than it saves, and so do exported
  code, the transforms of `torch.func` and forward-mode differentiation;
- a call that fits into one chunk (`chunks`) saves its state for the gradient, as autograd would;
- larger calls run chunk by chunk and recompute the state for the gradient; compiled where that pays
  (`compiling`);
- on a GPU with Triton, kernels compute tanh and sigmoid (`triton_scores`).

tanh and sigmoid of a sum are rational functions of exponentials, one for each query and each key;
`forms.rational` shows why this is safe for every finite input. Inputs outside its range, and all other
activations, take the same path with their own formula.
"""

import math
from functools import partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from attention_lab.attention.fast import compiling
from attention_lab.attention.fast.additive import compiled_loops, triton_scores
from attention_lab.attention.fast.additive.chunks import CHUNK, Chunks
from attention_lab.attention.fast.additive.forms import ACTIVATIONS, FORMS, LOGISTIC, Form, rational
from attention_lab.attention.fast.second_derivatives import by_plain_formula, plain_gradients
from attention_lab.attention.torch_state import (
    exporting,
    has_values,
    needs_plain_operations,
    without_autocast,
)

SMALL = 2**18
"""Calls of up to this many hidden units are faster with `reference` if the activation is tanh, the slowest.

With the others, a call that fits into one chunk has nothing to gain from another path.
"""


def reference(
    query: Float[Tensor, "... Q h"], keys: Float[Tensor, "... K h"], weight: Tensor, activation: str
) -> Float[Tensor, "... Q K"]:
    """`w^T f(a + b)` by the plain formula; stores `[..., Q, K, h]`."""
    hidden = ACTIVATIONS[activation](query.unsqueeze(-2) + keys.unsqueeze(-3))
    return (hidden @ (weight.unsqueeze(-1) if weight.dim() == 1 else weight[..., None, :, None])).squeeze(-1)


def additive_scores(
    query: Float[Tensor, "... Q h"],
    keys: Float[Tensor, "... K h"],
    weight: Float[Tensor, "... h"],
    activation: str = "tanh",
    *,
    compiled: bool | None = None,
) -> Float[Tensor, "... Q K"]:
    """`w^T f(a + b)` for all pairs of a projected query a and key b.

    Large calls compute half-precision inputs in float32; small ones, by `reference`, in their own precision.

    Args:
        query: a; the leading dimensions of all three broadcast.
        keys: b.
        weight: w.
        activation: f, one of `ACTIVATIONS`.
        compiled: whether inductor compiles large calls; None: only if `worth_compiling`.
    """
    leading = query.shape[:-2]
    if keys.shape[:-2] != leading or weight.dim() > 1:
        leading = torch.broadcast_shapes(leading, keys.shape[:-2], weight.shape[:-1])  # type: ignore[no-untyped-call]
    queries, count, hidden = query.shape[-2], keys.shape[-2], query.shape[-1]
    examples = math.prod(leading)
    work = examples * queries * count * hidden
    if (
        exporting()  # for any sizes, and for use without this package
        or work <= (SMALL if activation == "tanh" else CHUNK)
        or needs_plain_operations()
    ):
        return reference(query, keys, weight, activation)
    dtype = torch.promote_types(query.dtype, keys.dtype)
    inside = torch.promote_types(dtype, torch.float32)
    a = query.to(inside).expand(*leading, queries, hidden).reshape(examples, queries, hidden)
    b = keys.to(inside).expand(*leading, count, hidden).reshape(examples, count, hidden)
    w = weight.to(inside)
    w = w.view(1, hidden) if w.dim() == 1 else w.expand(*leading, hidden).reshape(examples, hidden)
    if not has_values(a):  # an operator has a rule for shapes, and is opaque to `torch.compile`
        scores: Tensor = _operator(a, b, w, activation, compiled)
    else:
        scores = _Scores.apply(a, b, w, activation, compiled)  # type: ignore[no-untyped-call]
    return scores.to(dtype).view(*leading, queries, count)


class Plan(NamedTuple):
    """How a call is computed.

    Attributes:
        activation: its name.
        form: how it is computed.
        path: "triton", "compiled" or "chunks".
    """

    activation: str
    form: Form
    path: str = "chunks"


def plan(a: Tensor, b: Tensor, activation: str, compiled: bool | None) -> Plan:
    """The fastest path for a `[n, Q, h]` and b `[n, K, h]`; it depends only on the call itself."""
    (examples, queries, hidden), count = a.shape, b.shape[1]
    if triton_scores.usable(a, activation):
        return Plan(activation, FORMS[activation], "triton")
    form = None
    # The exponentials of queries and keys must cost less than they save on the pairs. Not on a GPU, where
    # looking at the values would force a synchronisation.
    if a.device.type == "cpu" and queries * count >= 3 * (queries + count):
        form = rational(activation, a, b)
    work = examples * queries * count * hidden
    large = work > CHUNK and min(queries, count) > 1 and a.dtype == torch.float32
    path = "compiled" if large and compiling.worth_compiling(work, compiled) else "chunks"
    return Plan(activation, form or FORMS[activation], path)


def forward(a: Tensor, b: Tensor, w: Tensor, how: Plan) -> tuple[Tensor, Tensor | None]:
    """The scores `[n, Q, K]`, and the state to save for `backward`, if any; w is `[n, h]` or `[1, h]`."""
    form, state = how.form, None
    x, y = form.enter(a), form.enter(b)
    found = None
    if how.path == "triton":
        found = triton_scores.scores(a, b, w, LOGISTIC[how.activation])
    elif how.path == "compiled":
        found = compiled_loops.scores(form, x, y, w)
    if found is None:
        chunks = Chunks(form, x, y)
        found, state = chunks.scores(w), chunks.state
    if form.scale != 1:
        found.mul_(form.scale)
    if form.offset:
        found.add_(form.offset * w.sum(-1)[:, None, None])
    return found, state


def backward(
    a: Tensor, b: Tensor, w: Tensor, gradient: Tensor, how: Plan, state: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of a, b and w from the gradient of the scores `[n, Q, K]`."""
    form = how.form
    x, y = (a, b) if state is not None else (form.enter(a), form.enter(b))  # unused if there is a state
    found = None
    if how.path == "triton":
        found = triton_scores.gradient_sums(a, b, gradient, len(w), LOGISTIC[how.activation])
    elif how.path == "compiled":
        found = compiled_loops.gradient_sums(form, x, y, gradient, len(w))
    of_a, of_b, of_w = Chunks(form, x, y, state).gradient_sums(gradient, len(w)) if found is None else found
    if form.scale != 1:
        of_w = of_w * form.scale
    if form.offset:
        total = gradient.sum((1, 2))
        of_w = of_w + form.offset * (total if len(w) > 1 else total.sum(0, keepdim=True))[:, None]
    factor = (form.gain * w).unsqueeze(1)
    return of_a.mul_(factor), of_b.mul_(factor), of_w


class _Scores(torch.autograd.Function):
    """`forward` and `backward` for autograd; second derivatives come from `reference`."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, w: Tensor, activation: str, compiled: bool | None) -> Tensor:
        ctx.activation, ctx.how = activation, plan(a, b, activation, compiled)
        with without_autocast(a):
            scores, state = forward(a, b, w, ctx.how)
        ctx.save_for_backward(a, b, w, state)
        return scores

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        a, b, w, state = ctx.saved_tensors
        (gradient,) = gradients
        with without_autocast(a):
            if by_plain_formula(gradient):
                plain = partial(reference, activation=ctx.activation)
                return *plain_gradients(plain, (a, b, w), ctx.needs_input_grad, gradient), None, None
            return *backward(a, b, w, gradient, ctx.how, state), None, None


@torch.library.custom_op("attention_lab::additive_scores", mutates_args=())
def _operator(a: Tensor, b: Tensor, w: Tensor, activation: str, compiled: bool | None) -> Tensor:
    """`forward` as a single operator."""
    with without_autocast(a):
        return forward(a, b, w, plan(a, b, activation, compiled))[0]


@torch.library.custom_op("attention_lab::additive_gradients", mutates_args=())
def _gradients(
    a: Tensor, b: Tensor, w: Tensor, gradient: Tensor, activation: str, compiled: bool | None
) -> tuple[Tensor, Tensor, Tensor]:
    with without_autocast(a):
        return backward(a, b, w, gradient, plan(a, b, activation, compiled))


@_operator.register_fake
def _(a: Tensor, b: Tensor, w: Tensor, activation: str, compiled: bool | None) -> Tensor:
    return a.new_empty(a.shape[0], a.shape[1], b.shape[1])


@_gradients.register_fake
def _(a: Tensor, b: Tensor, w: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(a), torch.empty_like(b), torch.empty_like(w)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:3])
    ctx.options = inputs[3:]


def _backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    return *_gradients(*ctx.saved_tensors, gradient, *ctx.options), None, None


_operator.register_autograd(_backward, setup_context=_setup)
