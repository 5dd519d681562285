"""Every score x normaliser x window x pooling inside each model, against the references: docs/mechanisms.md.

    python tests/attention/matrix.py     writes the page again

A cell builds a small model in float64, takes what its attention was given and gave, and compares context,
weights and all gradients with the formulas.
"""

import importlib
import itertools
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import references
import torch
import yaml
from torch import Tensor

from attention_lab.attention import Attention, Mechanism, recording
from attention_lab.commandline.incompatible import REFUSALS, refusal
from attention_lab.models import KernelRegression, MultiHeadClassifier, Seq2Seq
from attention_lab.sizes import EOS, ClassificationSizes, RegressionSizes, TransductionSizes

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


def _seq2seq(mechanism: Mechanism) -> None:
    model = Seq2Seq(mechanism, TransductionSizes(7, 7), embedding_size=3, hidden_size=4, wiring="luong")
    source = torch.tensor([[4, 5, 6, EOS], [5, EOS, 0, 0]])
    model.double().eval()(source, torch.tensor([4, 2]), torch.tensor([[6, 5, 4], [5, EOS, 0]]))


def _multihead(mechanism: Mechanism) -> None:
    sizes = ClassificationSizes(classes=2, length=4, vocabulary=7)
    model = MultiHeadClassifier(mechanism, sizes, d_model=6, heads=2, layers=1, feedforward=4)
    model.double().eval()(torch.tensor([[4, 5, 6, 0]]), torch.tensor([3]))


def _nw(mechanism: Mechanism) -> Tensor:
    """Give the prediction too: a Gaussian kernel goes round its attention unless it is recorded."""
    model = KernelRegression(mechanism, RegressionSizes(features=2, targets=1, samples=5)).double().eval()
    model.memorize(torch.randn(5, 2).double(), torch.randn(5, 1).double())
    query, index = model.keys[:3] + 0, torch.tensor([0, 1, -1])
    with recording(model):
        model(query, index)
    predicted: Tensor = model(query, index)
    return predicted


MODELS: dict[str, Callable[[Mechanism], Tensor | None]] = {
    "seq2seq": _seq2seq,
    "multihead": _multihead,
    "nw": _nw,
}


def cells() -> Iterator[Cell]:
    """All cells of all models."""
    for choice in itertools.product(MODELS, *map(names, GROUPS)):
        yield Cell(*choice)


def error(cell: Cell) -> float:
    """The largest difference between attention in the model and the formula, gradients included."""
    torch.manual_seed(0)
    parts = {group: part(group, getattr(cell, group)) for group in GROUPS}
    mechanism = Mechanism(parts["scoring"], parts["normalizer"], parts["pooling"], parts["window"])
    seen: dict[str, Any] = {"context": None}
    remember, weights, forward = Attention.remember, Attention.weights, Attention.forward

    def watched_remember(
        self: Attention, key: Tensor, value: Any = None, mask: Any = None, **options: Any
    ) -> Any:
        seen.update(key=key, value=key if value is None else value, mask=mask)
        return remember(self, key, value, mask, **options)

    def watched_weights(self: Attention, query: Tensor, memory: Any, **options: Any) -> Tensor:
        found = weights(self, query, memory, **options)
        seen.update(attention=self, query=query, weights=found)
        return found

    def watched_forward(self: Attention, query: Tensor, memory: Any, **options: Any) -> Tensor:
        context = forward(self, query, memory, **options)
        seen.update(context=context)
        self.weights(query, memory, **options)
        return context

    with (
        patch.object(Attention, "remember", watched_remember),
        patch.object(Attention, "weights", watched_weights),
        patch.object(Attention, "forward", watched_forward),
    ):
        predicted = MODELS[cell.model](mechanism)
    if predicted is not None:
        seen.update(context=predicted)
    return _difference(**seen)


def _difference(
    attention: Attention,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    context: Tensor | None,
    weights: Tensor,
) -> float:
    wide = [_four(x) for x in (query, key, value)]
    visible = torch.ones(*wide[0].shape[:3], wide[1].shape[2], dtype=torch.bool)
    scores = references.scores(attention.score, wide[0], wide[1])
    wanted, wanted_weights = references.attend(
        attention, scores, wide[0], wide[2], visible if mask is None else visible & _four(mask)
    )
    leaves = [x for x in (query, key, value, *attention.parameters()) if x.requires_grad]
    pairs = [(_four(weights), wanted_weights)]
    pairs += zip(_gradients(_four(weights), leaves), _gradients(wanted_weights, leaves), strict=True)
    if context is not None:
        pairs.append((_four(context), wanted))
        pairs += zip(_gradients(_four(context), leaves), _gradients(wanted, leaves), strict=True)
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
    if refusal(cell._asdict()) is not None:
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
    for one in REFUSALS:
        taken = ", ".join(f"`{one.group}={choice}`" for choice in one.choices)
        lines.append(f"| {', '.join(f'`{model}`' for model in one.models)} | {taken} | {one.reason} |")
    return "\n".join(lines) + "\n"


def section(model: str, pooling: str) -> str:
    """The table of a model and a pooling as Markdown, empty if all of it is refused."""
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

Each score, normaliser, window and pooling, with each other, inside the models. A number is a verified cell: a
small model is built in float64, and context, weights and all gradients of its attention are compared with a
reference written from the formulas (`tests/attention/references.py`); none differs by more than the number.
Hard poolings are compared as they are evaluated, monotonic ones by their weights; their draws, paths and
gradients have tests of their own.
Columns are normaliser and window.

`image2seq` has the attention of `seq2seq`; `transformer`, `lm`, `graph`, `cnn` and `rnn` that of `multihead`.

The page is written by `python tests/attention/matrix.py`, and a test compares it with what it finds.

## Refused

These mixes have no meaning and end in one line that says so; they are left out below."""


if __name__ == "__main__":
    PAGE.write_text(header() + "".join(itertools.starmap(section, sections())), encoding="utf-8")
