"""Causal linear attention is a recurrent network."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from PIL.Image import Image
from torch import Tensor

from attention_lab.argument_checks import check_counts
from attention_lab.attention import Attention, Linear, ScaledDot
from attention_lab.attention.fast.linear import linear_step
from attention_lab.theorems.finding import Cell, Figure, Finding, largest_difference, seeded
from attention_lab.theorems.option_checks import check_list, check_tolerance
from attention_lab.viz.plots import draw_panels
from attention_lab.viz.plots.panels import Lines, Series

Inputs = tuple[Tensor, Tensor, Tensor]
"""Query, key and value, `[B, L, d]` each."""


class Cost(NamedTuple):
    """The cost of one more step after `length` earlier ones.

    Attributes:
        length: number of earlier steps.
        seconds: time of one step, the fastest of several.
        numbers: how many numbers of the past are stored and read.
    """

    length: int
    seconds: float
    numbers: int


class LinearRecurrence:
    """Linear attention in three forms that compute the same function (2006.16236, section 3.4).

    - parallel: sums of `phi(k_j) v_j^T` over chunks of the sequence (eq. 8 and 9);
    - recurrent: a state `S_i = S_{i-1} + phi(k_i) v_i^T`, `z_i = z_{i-1} + phi(k_i)` (eq. 16 to 20);
    - weights: the kernel's logarithm as a score under a causal softmax.

    Args:
        length: L, length of the compared sequences.
        size: d, size of queries, keys and values.
        batch: number of sequences.
        lengths: numbers of earlier steps after which the cost of one more step is measured.
        repeats: number of steps timed at each length.
        tolerance: largest difference that counts as equal, in float64.
    """

    def __init__(
        self,
        length: int = 200,
        size: int = 16,
        batch: int = 3,
        lengths: Sequence[int] = (64, 256, 1024, 4096, 16384),
        repeats: int = 21,
        tolerance: float = 1e-10,
    ) -> None:
        check_counts("theorem", 1, length=length, size=size, batch=batch, repeats=repeats)
        check_list("lengths", lengths, least=1, whole=True)
        check_tolerance(tolerance)
        self.length, self.size, self.batch = length, size, batch
        self.lengths, self.repeats, self.tolerance = lengths, repeats, tolerance

    def run(self, seed: int) -> Finding:
        """Compare values and gradients of the three forms, and measure the cost of a step."""
        with seeded(seed):
            found = self._contexts_and_gradients()
            with torch.no_grad():
                state, growing = self._cost(_linear_past), self._cost(_softmax_past)
        pairs = (("recurrent", "parallel"), ("recurrent", "weights"), ("parallel", "weights"))
        rows: list[list[Cell]] = [
            [f"{one} and {other}", *map(largest_difference, found[one], found[other])] for one, other in pairs
        ]
        largest = max(float(cell) for row in rows for cell in row[1:])
        by_step = {
            f"{one} and {other}": (found[one][0] - found[other][0]).abs().amax((0, 2))
            for one, other in pairs[:2]
        }
        notes = [
            f"one more step after {few.length:,}: {few.seconds * 1e6:.0f} microseconds and {few.numbers:,} "
            f"stored numbers; with softmax attention {many.seconds * 1e6:.0f} and {many.numbers:,}"
            for few, many in zip(state, growing, strict=True)
        ]
        constant = len({cost.numbers for cost in state}) == 1
        return Finding(
            title="Linear attention is a recurrent network",
            claim="Causal linear attention computed in parallel, step by step from a state of constant "
            "size, and as a softmax over the logarithm of its kernel is one and the same function.",
            source="2006.16236, section 3.4, eq. 8 to 20",
            columns=("forms", "context", "d query", "d key", "d value"),
            rows=rows,
            criterion=f"contexts and gradients differ by less than {self.tolerance:g} in float64, "
            "and the state has one size at every length",
            holds=largest < self.tolerance and constant,
            figures=(Figure("recurrence", partial(self._draw, by_step, state, growing)),),
            notes=notes,
        )

    def _contexts_and_gradients(self) -> dict[str, tuple[Tensor, ...]]:
        """The contexts by each form, and their gradients w.r.t. query, key and value."""
        forms: dict[str, Callable[[Attention, Inputs], Tensor]] = {
            "parallel": parallel,
            "recurrent": recurrent,
            "weights": by_weights,
        }
        attention = Attention(Linear(self.size, self.size))
        shape = (self.batch, self.length, self.size)
        given = [torch.randn(shape, dtype=torch.float64) for _ in range(3)]
        direction = torch.randn(shape, dtype=torch.float64)
        found = {}
        for name, form in forms.items():
            query, key, value = (x.clone().requires_grad_() for x in given)
            context = form(attention, (query, key, value))
            gradients = torch.autograd.grad(context, (query, key, value), direction)
            found[name] = (context.detach(), *gradients)
        return found

    def _cost(self, past: Callable[[int, int], tuple[Callable[[], Tensor], int]]) -> list[Cost]:
        found = []
        for length in self.lengths:
            step, numbers = past(length, self.size)
            step()
            seconds = []
            for _ in range(self.repeats):
                start = time.perf_counter()
                step()
                seconds.append(time.perf_counter() - start)
            found.append(Cost(length, min(seconds), numbers))
        return found

    def _draw(self, by_step: dict[str, Tensor], state: Sequence[Cost], growing: Sequence[Cost]) -> Image:
        steps = list(range(1, self.length + 1))
        shown = [
            Series(name, steps, (difference * 1e16).tolist(), style="dots")
            for name, difference in by_step.items()
        ]
        costs = (("softmax, all keys kept", growing, 1), ("linear, one state", state, 0))
        of_length = partial(Lines, x_label="steps before", log_x=True, log_y=True, ticks=self.lengths)
        panels = [
            Lines(shown, "Difference of the contexts at every step", "step", "largest, in units of 1e-16"),
            of_length(
                [Series(n, self.lengths, [c.numbers for c in cost], colour=k) for n, cost, k in costs],
                "Stored numbers of earlier steps",
            ),
            of_length(
                [Series(n, self.lengths, [c.seconds * 1e6 for c in cost], colour=k) for n, cost, k in costs],
                "Microseconds for one more step",
            ),
        ]
        return draw_panels(
            panels,
            title="Linear attention is a recurrent network",
            note=f"float64, {self.length} steps, d = {self.size}; one sequence, float32, for the costs",
        )


def parallel(attention: Attention, inputs: Inputs) -> Tensor:
    """All contexts at once, by sums over the keys; no weights."""
    query, key, value = inputs
    context: Tensor = attention(query, attention.remember(key, value, causal=True))
    return context


def recurrent(attention: Attention, inputs: Inputs) -> Tensor:
    """The contexts one after the other, from a state."""
    query, key, value = inputs
    features = attention.score.kernel_features(query, attention.score.keys(key))
    assert features is not None
    state: Tensor | None = None
    contexts = []
    for q, k, v in zip(*(x.unbind(-2) for x in (*features, value)), strict=True):
        context, state = linear_step(q, k, v, state)
        contexts.append(context)
    return torch.stack(contexts, -2)


def by_weights(attention: Attention, inputs: Inputs) -> Tensor:
    """All contexts by a softmax over the causal scores, which forms the weights."""
    query, key, value = inputs
    return attention.weights(query, attention.remember(key, value, causal=True)) @ value


def _linear_past(length: int, size: int) -> tuple[Callable[[], Tensor], int]:
    """One step of linear attention after `length` others, and the size of its state."""
    score = Linear(size, size)
    query, key, value = torch.randn(3, length + 1, size)
    features = score.kernel_features(query, score.keys(key))
    q, k = (x[-1] for x in features)
    sums = features[1][:-1].mT @ torch.cat([value[:-1], torch.ones(length, 1)], -1)
    return lambda: linear_step(q, k, value[-1], sums)[0], sums.numel()


def _softmax_past(length: int, size: int) -> tuple[Callable[[], Tensor], int]:
    """One step of softmax attention after `length` others, and the size of its memory."""
    attention = Attention(ScaledDot(size, size))
    query, key, value = torch.randn(3, length + 1, size)
    memory = attention.remember(key, value, causal=True)

    def step() -> Tensor:
        context: Tensor = attention(query[-1:], memory, offset=length)
        return context

    return step, memory.keys.numel() + memory.value.numel()
