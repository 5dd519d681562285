"""Every score x normaliser x window x pooling inside each model, against the references: docs/mechanisms.md.

    python tests/attention/matrix.py     writes the page again

A cell builds a small model in float64, takes what its attentions were given and gave, and compares context,
weights and all gradients with the formulas.
"""

import importlib
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import references
import torch
import yaml
from small_models import ATTENTIONS, MODELS
from torch import Tensor

from attention_lab.attention import Attention, Mechanism
from attention_lab.attention.memory import Memory
from attention_lab.commandline.incompatible import INCOMPATIBLE, find_incompatibility

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "mechanisms.md"
GROUPS = ("scoring", "normalizer", "window", "pooling")
TOLERANCE = 1e-10


class Cell(NamedTuple):
    """The choices of one cell, by their names on the command line."""

    model: str
    scoring: str
    normalizer: str
    window: str
    pooling: str


@cache
def part(group: str, name: str) -> Callable[..., Any]:
    """What a file of `conf/` composes; windows narrow enough to leave something out of a few keys."""
    options = yaml.safe_load((ROOT / "conf" / group / f"{name}.yaml").read_text())
    module, _, kind = options.pop("_target_").rpartition(".")
    options.pop("_partial_")
    if group == "window" and "width" in options:
        options["width"] = 1
    return partial(getattr(importlib.import_module(module), kind), **options)


def names(group: str) -> list[str]:
    """The choices of a group."""
    return sorted(path.stem for path in (ROOT / "conf" / group).glob("*.yaml"))


@dataclass
class Call:
    """What an attention was given in a call, and what it gave."""

    attention: Attention
    query: Tensor
    key: Tensor
    value: Tensor
    visible: Tensor | None
    weights: Tensor
    context: Tensor | None


def cells() -> Iterator[Cell]:
    """All cells of all models."""
    for choice in itertools.product(MODELS, *map(names, GROUPS)):
        yield Cell(*choice)


def error(cell: Cell) -> float:
    """The largest difference between an attention in the model and the formula, gradients included."""
    torch.manual_seed(0)
    parts = {group: part(group, getattr(cell, group)) for group in GROUPS}
    mechanism = Mechanism(parts["scoring"], parts["normalizer"], parts["pooling"], parts["window"])
    with watched() as calls:
        predicted = MODELS[cell.model](mechanism)
    if predicted is not None:
        calls[-1].context = predicted
    assert len({id(call.attention) for call in calls}) == ATTENTIONS.get(cell.model, 1)
    return max(map(_difference, calls))


@contextmanager
def watched() -> Iterator[list[Call]]:
    """Collect the calls of every attention that runs inside."""
    calls: list[Call] = []
    sources: dict[int, tuple[Memory, Tensor, Tensor]] = {}
    remember, weights, forward = Attention.remember, Attention.weights, Attention.forward

    def watched_remember(
        self: Attention, key: Tensor, value: Any = None, mask: Any = None, **options: Any
    ) -> Memory:
        memory = remember(self, key, value, mask, **options)
        sources[id(memory.keys)] = memory, key, key if value is None else value
        return memory

    def keep(
        self: Attention, query: Tensor, memory: Memory, found: Tensor, context: Tensor | None, **options: Any
    ) -> None:
        if not torch.is_grad_enabled():  # a search for a first width, which alters it afterwards
            return
        assert not options.get("offset") and options.get("bias") is None
        _, key, value = sources[id(memory.keys)]
        calls.append(Call(self, query, key, value, _visible(query, memory), found, context))

    def watched_weights(self: Attention, query: Tensor, memory: Memory, **options: Any) -> Tensor:
        found = weights(self, query, memory, **options)
        keep(self, query, memory, found, None, **options)
        return found

    def watched_forward(self: Attention, query: Tensor, memory: Memory, **options: Any) -> Tensor:
        context = forward(self, query, memory, **options)
        keep(self, query, memory, weights(self, query, memory, **options), context, **options)
        return context

    with (
        patch.object(Attention, "remember", watched_remember),
        patch.object(Attention, "weights", watched_weights),
        patch.object(Attention, "forward", watched_forward),
    ):
        yield calls


def _visible(query: Tensor, memory: Memory) -> Tensor | None:
    if not memory.causal:
        return memory.mask
    earlier = torch.ones(query.shape[-2], memory.keys.shape[-2], dtype=torch.bool).tril()
    return earlier if memory.mask is None else earlier & memory.mask


def _difference(call: Call) -> float:
    attention, query, key, value = call.attention, call.query, call.key, call.value
    wide = [_four(x) for x in (query, key, value)]
    everywhere = torch.ones(*wide[0].shape[:3], wide[1].shape[2], dtype=torch.bool)
    visible = everywhere if call.visible is None else everywhere & _four(call.visible)
    scores = references.scores(attention.score, wide[0], wide[1])
    wanted, wanted_weights = references.attend(attention, scores, wide[0], wide[2], visible)
    leaves = [x for x in (query, key, value, *attention.parameters()) if x.requires_grad]
    pairs = [(_four(call.weights), wanted_weights)]
    pairs += zip(_gradients(_four(call.weights), leaves), _gradients(wanted_weights, leaves), strict=True)
    if call.context is not None:
        pairs.append((_four(call.context), wanted))
        pairs += zip(_gradients(_four(call.context), leaves), _gradients(wanted, leaves), strict=True)
    return max(float((got - want).detach().abs().max()) for got, want in pairs)


def _gradients(output: Tensor, leaves: list[Tensor]) -> list[Tensor]:
    if not output.requires_grad or not leaves:
        return [torch.zeros_like(x) for x in leaves]
    direction = torch.cos(torch.arange(output.numel())).to(output).reshape(output.shape)
    found = torch.autograd.grad(output, leaves, direction, allow_unused=True, retain_graph=True)
    return [torch.zeros_like(x) if g is None else g for x, g in zip(leaves, found, strict=True)]


def _four(x: Tensor) -> Tensor:
    return x[None, None] if x.dim() == 2 else x.unsqueeze(1) if x.dim() == 3 else x


def state(cell: Cell) -> str:
    """What the page says of a cell."""
    if find_incompatibility(cell._asdict()) is not None:
        return "—"
    found = error(cell)
    bound = next((bound for bound in (1e-12, 1e-11, TOLERANCE) if found <= bound), None)
    return f"**{found:.0e}**" if bound is None else f"{bound:.0e}"


def sections() -> list[tuple[str, str]]:
    """Model and pooling of each table."""
    return list(itertools.product(MODELS, names("pooling")))


def header() -> str:
    """What stands above the tables."""
    lines = [*INTRODUCTION.splitlines(), ""]
    lines += ["| model | does not take | because |", "|---|---|---|"]
    for one in INCOMPATIBLE:
        taken = ", ".join(f"`{one.group}={choice}`" for choice in one.choices)
        lines.append(f"| {', '.join(f'`{model}`' for model in one.models)} | {taken} | {one.reason} |")
    return "\n".join(lines) + "\n"


def section(model: str, pooling: str) -> str:
    """The table of a model and a pooling as Markdown, empty if all of it is rejected."""
    columns = list(itertools.product(names("normalizer"), names("window")))
    rows = {
        scoring: [state(Cell(model, scoring, *column, pooling)) for column in columns]
        for scoring in names("scoring")
    }
    rows = {scoring: row for scoring, row in rows.items() if any(cell != "—" for cell in row)}
    if not rows:
        return ""
    kept = [n for n in range(len(columns)) if any(row[n] != "—" for row in rows.values())]
    lines = ["", f"## `model={model} pooling={pooling}`", ""]
    lines.append("| `scoring` | " + " | ".join(" ".join(columns[n]) for n in kept) + " |")
    lines.append("|---|" + "---|" * len(kept))
    lines += [f"| `{scoring}` | " + " | ".join(row[n] for n in kept) + " |" for scoring, row in rows.items()]
    return "\n".join(lines) + "\n"


INTRODUCTION = """# Every mechanism in every model

This page has every combination of score, normaliser, window and pooling, inside each of the nine models. A
number means that the combination is verified. For each cell, a small model is built in float64. The context,
weights and all gradients of its attentions (a `transformer` has three) are compared with a reference written
from the formulas (`tests/attention/references.py`), and none differs by more than the number.
Hard poolings are compared in evaluation mode, monotonic pooling by its weights; separate tests cover their
samples, paths and gradients.
Columns are normaliser and window.

The page is written by `python tests/attention/matrix.py`, and a test checks that it is up to date.

## Rejected

These combinations have no meaning. They are rejected with a one-line error, and left out below."""


if __name__ == "__main__":
    tables = []
    for number, (model, pooling) in enumerate(sections(), start=1):
        print(f"table {number} of {len(sections())}: model={model}, pooling={pooling}", flush=True)
        tables.append(section(model, pooling))
    PAGE.write_text(header() + "".join(tables), encoding="utf-8")
