"""Which examples, heads and queries to record, and how our own attention passes on their weights."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from attention_lab.argument_checks import kind_of
from attention_lab.attention.memory import Call, Memory
from attention_lab.attention.torch_state import between_graphs, uncached_autocast

Chosen = int | slice | Sequence[int] | Tensor | None
"""Which examples, heads or queries: one, some of them, or all (None)."""
Index = slice | list[int]


def indices(choice: object, option: str) -> Index | None:
    """A choice as a slice or a list of numbers; None for all.

    Raises:
        TypeError: it is neither, for example a boolean mask.
        ValueError: it chooses nothing.
    """
    if choice is None:
        return choice
    if isinstance(choice, slice):
        _check_slice(choice, option)
        return choice
    listed: Any = choice.tolist() if hasattr(choice, "tolist") else choice  # of a tensor or an array
    several = isinstance(listed, Iterable) and not isinstance(listed, str)
    wanted = list(listed) if several else [listed]
    for one in wanted:
        if type(one) is bool or not isinstance(one, Integral):
            raise TypeError(f"recording({option}=...) takes indices or a slice, not {kind_of(one)}")
    if not wanted:
        raise ValueError(f"recording({option}=[]) selects nothing: leave {option} out to record all")
    return [int(one) for one in wanted]


def _check_slice(choice: slice, option: str) -> None:
    """Raise TypeError if a slice is not of whole numbers, ValueError if it is empty for every size."""
    parts = choice.start, choice.stop, choice.step
    if not all(part is None or isinstance(part, Integral) for part in parts):
        raise TypeError(f"recording({option}=...) takes a slice of whole numbers, not {choice}")
    start, stop, step = choice.start or 0, choice.stop, choice.step
    empty = stop is not None and start >= stop and (start < 0) == (stop < 0)
    if step == 0 or ((empty or stop == 0) and (step is None or step > 0)):
        raise ValueError(f"recording({option}={choice}) selects nothing: leave {option} out to record all")


def chosen(choice: Index | None, size: int, kind: str, of: str) -> Index:
    """The index of the chosen items among `size` of them.

    Raises:
        IndexError: a chosen item does not exist.
    """
    if choice is None:
        return slice(None)
    if isinstance(choice, slice):
        return _for_tensors(choice, size)
    for item in choice:
        if not -size <= item < size:
            raise IndexError(f"recording: there is no {kind} {item} {of.format(size)}")
    return choice


def _for_tensors(choice: slice, size: int) -> Index:
    """A slice of `size` items as an index of a tensor, whose slices cannot go backwards."""
    return list(range(size))[choice] if choice.step is not None and choice.step < 0 else choice


@dataclass(frozen=True)
class Selection:
    """The examples, heads and queries to record; None for all."""

    examples: Index | None = None
    heads: Index | None = None
    queries: Index | None = None

    def of_batch(self, size: int) -> Index:
        """The index of the chosen examples in a batch."""
        return chosen(self.examples, size, "example", "in a batch of {}")

    def of_heads(self, size: int) -> Index:
        """The index of the chosen heads."""
        return chosen(self.heads, size, "head", "among {}")

    def of_queries(self, size: int, before: int = 0) -> Index:
        """The index of the chosen queries in a call of `size` queries, after `before` in earlier calls."""
        choice = self.queries
        if choice is None:
            return slice(None)
        if isinstance(choice, slice):
            start, stop, step = choice.start or 0, choice.stop, choice.step or 1
            if before == 0 or start < 0 or step < 0 or (stop is not None and stop < 0):
                return _for_tensors(choice, size)
            start += -(-max(0, before - start) // step) * step
            return slice(start - before, None if stop is None else max(0, stop - before), step)
        positions = [query - before if query >= 0 else query + size for query in choice]
        return [position for position in positions if 0 <= position < size]

    def __call__(self, weights: Tensor, before: int = 0) -> Tensor:
        """The chosen part of `[B, H, Q, K]`; a copy if it is smaller."""
        part = weights[self.of_batch(len(weights))][:, self.of_heads(weights.shape[1])]
        part = part[:, :, self.of_queries(weights.shape[2], before)]
        return part.clone() if part.numel() < weights.numel() else part


@dataclass
class Recorder:
    """Passes on the weights of one attention. A copy of a module that is being recorded has none.

    Attributes:
        keep: called with the weights, mask and predicted centres of the selected examples.
        selection: the selected examples, heads and queries. A call without a batch dimension is one example,
            always selected.
        hidden: whether a call is not to be recorded, or cannot be, as its tensors hide their values.
        has_heads: whether the dimension before the queries always holds the heads, even without a batch.
        queries: the number of queries in the calls so far.
        outer: the recorder of a recording around this one, or of one in another thread.
        thread: the thread of the recording, whose calls are recorded.
        paused: the number of running calls that hide the calls inside them; see `Attention.unrecorded`.
    """

    keep: Callable[[Tensor, Tensor | None, Tensor | None], None]
    selection: Selection
    hidden: Callable[[], bool]
    has_heads: bool
    queries: int = 0
    outer: "Recorder | None" = None
    thread: int = field(default_factory=threading.get_ident)
    paused: int = 0

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return type(None), ()

    @between_graphs
    def of_this_thread(self) -> "list[Recorder]":
        """This recorder and those around it, as far as they record the calls of this thread."""
        outer = [] if self.outer is None else self.outer.of_this_thread()
        return [self, *outer] if self.thread == threading.get_ident() else outer

    def forget(self, other: "Recorder") -> None:
        """Forget a recorder around this one, whose recording has ended."""
        if self.outer is other:
            self.outer = other.outer
        elif self.outer is not None:
            self.outer.forget(other)

    @between_graphs
    def add(self, weights: Tensor, mask: Tensor | None, centre: Tensor | None = None) -> None:
        """Record the selected examples of the weights of a batch, `[Q, K]` or `[B, ..., Q, K]`."""
        if self.outer is not None:
            self.outer.add(weights, mask, centre)
        if self.paused or self.hidden():
            return
        rows = self._rows(weights.shape[-2])
        part, mask, centre = self._selected_examples(weights.detach(), mask, centre)
        if self.selection.examples is not None or rows != slice(None):
            part = part[..., rows, :].clone()  # a view would keep the whole tensor alive
        self._keep(part, _rows_of(mask, rows), _rows_of(centre, rows))

    @between_graphs
    def record_call(self, weigh: Callable[..., Tensor], call: Call) -> None:
        """Compute and keep the weights of the selected part, for a context that was computed without weights.

        Args:
            weigh: from queries, keys, span and bias to weights.
            call: a call of the attention with the complete batch.
        """
        if self.outer is not None:
            self.outer.record_call(weigh, call)
        if self.paused or self.hidden():
            return
        memory = call.memory
        query, keys, value, mask, bias = self._selected_examples(
            call.query, memory.keys, memory.value, memory.mask, call.bias
        )
        of_all = Memory(keys, value, mask, memory.causal)
        with torch.no_grad(), uncached_autocast(query):
            for rows in _runs(self._rows(query.shape[-2]), query.shape[-2]):
                some = Memory(of_all.keys, of_all.value, _rows_of(mask, rows), of_all.causal)
                offset = call.offset + (rows.start or 0)
                part = Call(call.window, query[..., rows, :], some, offset, _rows_of(bias, rows))
                span = part.span
                self._keep(weigh(part.query, some.keys, span, part.bias), span.mask, span.centre)

    def _keep(self, weights: Tensor, mask: Tensor | None, centre: Tensor | None) -> None:
        """Keep the selected heads of the weights of the selected examples and queries."""
        if not weights.shape[-2]:
            return
        if self.has_heads and weights.dim() == 3:  # of one example
            weights = weights.unsqueeze(0)
            mask, centre = (x if x is None or x.dim() < 3 else x.unsqueeze(0) for x in (mask, centre))
        if self.selection.heads is not None and weights.dim() == 4:
            heads = self.selection.of_heads(weights.shape[1])
            weights = weights[:, heads].clone()
            mask, centre = (
                x if x is None or x.dim() < 4 or x.shape[1] == 1 else x[:, heads] for x in (mask, centre)
            )
        self.keep(weights, mask, centre)

    def _rows(self, size: int) -> Index:
        """The index of the selected queries of one more call."""
        rows = self.selection.of_queries(size, self.queries)
        self.queries += size
        return rows

    def _selected_examples(self, *tensors: Tensor | None) -> list[Any]:
        """The selected examples of tensors that share a batch dimension.

        The batch is the first dimension of the tensors of the highest rank, unless that rank is two, or three
        with heads. Tensors that are shared by all examples are returned unchanged.
        """
        given = [x for x in tensors if x is not None]
        rank = max(x.dim() for x in given)
        batch = max(len(x) for x in given if x.dim() == rank)
        index = self.selection.of_batch(batch) if rank > 2 + self.has_heads else slice(None)
        return [x if x is None or x.dim() < rank or len(x) < batch else x[index] for x in tensors]


def _rows_of(x: Tensor | None, rows: Index) -> Tensor | None:
    """Rows of a mask, a bias or centres `[..., Q or 1, K or 1]`."""
    return x if x is None or rows == slice(None) or x.dim() < 2 or x.shape[-2] == 1 else x[..., rows, :]


def _runs(rows: Index, size: int) -> Iterator[slice]:
    """The selected rows as runs of consecutive rows; all rows form one run."""
    if rows == slice(None):
        yield rows
        return
    selected = list(range(size))[rows] if isinstance(rows, slice) else rows
    start = 0
    for end in range(1, len(selected) + 1):
        if end == len(selected) or selected[end] != selected[end - 1] + 1:
            yield slice(selected[start], selected[end - 1] + 1)
            start = end
