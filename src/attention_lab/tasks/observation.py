"""An example as a task shows it: its text, and a record of each attention."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attention_lab.attention import Recording
from attention_lab.errors import LabError
from attention_lab.tensorboard_plugin.record import AttentionRecord, Ink


class Observation(NamedTuple):
    """One example as the model saw it, on the CPU.

    Attributes:
        input: the example as text.
        output: the model's output.
        expected: the correct output; empty if unknown.
        records: weights, mask, labels and more of each attention, in order of execution.
    """

    input: str
    output: str
    expected: str
    records: tuple[AttentionRecord, ...]

    def __repr__(self) -> str:
        """The texts, and the shape of each attention's weights."""
        shapes = ", ".join(f"{one.module} {list(one.weights.shape)}" for one in self.records)
        expected = f", expected {self.expected!r}" if self.expected else ""
        return f"Observation({self.input!r} -> {self.output!r}{expected}; weights: {shapes or 'none'})"

    @property
    def weights(self) -> dict[str, Tensor]:
        """Weights `[H, Q, K]` of each attention by module name, before dropout."""
        return {record.module: torch.from_numpy(record.weights) for record in self.records}

    def labels(self, module: str) -> tuple[list[str], list[str]]:
        """The labels of the rows and columns of one attention. Raises LabError for an unknown name."""
        for record in self.records:
            if record.module == module:
                return list(record.queries), list(record.keys)
        raise LabError(f"there is no attention {module!r}: choose one of {', '.join(self.weights)}")


class QueriesAndKeys(NamedTuple):
    """The queries and keys of one attention on one example.

    Attributes:
        queries: labels of the Q rows to show, which are the first.
        keys: labels of the K columns to show, which are the first.
        gold: gold key `[Q]` or keys `[Q, G]` of each query, -1 for no key; None if unknown.
        picture: the input, if it is a picture and the keys are its cells.
        x: positions `[Q]` of the queries and `[K]` of the keys, if both are numbers on one axis.
    """

    queries: list[str]
    keys: list[str]
    gold: Tensor | None = None
    picture: Ink | None = None
    x: tuple[Tensor, Tensor] | None = None


def make_observation(
    weights: Recording,
    example: int,
    queries_and_keys: Mapping[str, QueriesAndKeys],
    *,
    columns: Tensor | None = None,
    input: str,  # noqa: A002
    output: str,
    expected: str,
) -> Observation:
    """The observation of one example of a recorded batch.

    Args:
        weights: the recording.
        example: its number in the batch.
        queries_and_keys: queries and keys of each attention to show, by module name.
        columns: the keys to show, in this order; None for the first ones.
        input: see `Observation`.
        output: see `Observation`.
        expected: see `Observation`.
    """

    def shown(heads: Tensor, one: QueriesAndKeys) -> Any:
        """The rows and columns to show of one example's weights or mask."""
        heads = heads[example] if columns is None else heads[example][..., columns]
        return heads[:, : len(one.queries), : len(one.keys)].cpu().numpy()

    records = (
        AttentionRecord(
            weights=shown(weights[name].float(), one),
            mask=shown(weights.mask(name), one),
            queries=one.queries,
            keys=one.keys,
            module=name,
            input=input,
            output=output,
            expected=expected,
            gold=None if one.gold is None else one.gold.long().numpy(),
            picture=one.picture,
            x=_positions(one.x),
        )
        for name, one in queries_and_keys.items()
    )
    return Observation(input, output, expected, tuple(records))


def _positions(x: tuple[Tensor, Tensor] | None) -> tuple[Any, Any] | None:
    """Positions as arrays; None if one is not finite, as in a checkpoint from others: no axis has it."""
    if x is None or not all(one.isfinite().all() for one in x):
        return None
    return x[0].double().numpy(), x[1].double().numpy()
