"""The memory of keys and values that queries attend to, a single call, and checks of their shapes."""

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from attention_lab.argument_checks import kind_of
from attention_lab.attention.fast.growing import append_rows
from attention_lab.attention.masks import (
    broadcast,
    causal_mask,
    check_count,
    check_indices,
    check_mask,
    known_all_true,
)
from attention_lab.attention.part_checks import check_keys, check_span
from attention_lab.attention.scores import Score
from attention_lab.attention.scores.projection import NO_VALUES
from attention_lab.attention.torch_state import has_values
from attention_lab.attention.windows import Span, Window


class Memory(NamedTuple):
    """What queries attend to: computed once for a source by `Attention.remember`, then passed on.

    Attributes:
        keys: the keys as prepared by the score, `[..., K, f]`.
        value: `[..., K, dv]`.
        mask: boolean, broadcastable to `[..., Q, K]`, True = attend; None to attend to every key.
        causal: whether a query sees only the keys up to its own position.
    """

    keys: Tensor
    value: Tensor
    mask: Tensor | None
    causal: bool = False

    def hides_later_keys(self, offset: int) -> bool:
        """Whether the causal order hides any key from queries at `offset`, `offset + 1`, ...

        Without values, as in compiled or traced code, True for every causal memory: sizes may change later.
        """
        return self.causal and (offset < self.value.shape[-2] - 1 or not has_values(self.value))

    def select(self, index: Int[Tensor, " N"]) -> "Memory":
        """The memories of the examples `index`, for example for the beams of a search.

        What all examples share stays as it is, but at least one of keys, values and mask must have them.

        Raises:
            TypeError: the index is not a tensor of whole numbers.
            ValueError: there are no examples: keys, values and mask have two dimensions.
        """
        check_indices("the index", index, "examples, such as torch.tensor([0, 2])")
        given = [x for x in (self.keys, self.value, self.mask) if x is not None]
        rank = max(x.dim() for x in given)
        if rank < 3:
            raise ValueError(
                f"a memory without a batch has no examples to select: its keys are {list(self.keys.shape)}"
            )
        batch = max(x.shape[0] for x in given if x.dim() == rank)

        def chosen(x: Tensor) -> Tensor:  # what has fewer dimensions, or one example, is shared by all
            return x if x.dim() < rank or x.shape[0] < batch else x.index_select(0, index)

        mask = None if self.mask is None else chosen(self.mask)
        return Memory(chosen(self.keys), chosen(self.value), mask, self.causal)

    def extend(self, more: "Memory") -> "Memory":
        """This memory with the keys and values of `more` appended; neither may be masked.

        Without gradients, the second call in a row and all later ones copy only `more`: see `fast.growing`.

        Raises:
            TypeError: `more` is not a memory.
            ValueError: one of them has a mask or is causal and the other is not, or they differ in more than
                the number of keys, or `more` has keys without values.
        """
        if not isinstance(more, Memory):
            raise TypeError(f"extend takes the memory that remember(...) returns, not {kind_of(more)}")
        if self.mask is not None or more.mask is not None:
            raise ValueError("a memory with a mask cannot be extended")
        if self.causal != more.causal:
            raise ValueError(
                f"memories must agree in whether they are causal: got {self.causal} and {more.causal}"
            )
        if not torch.compiler.is_compiling():
            for name, one, other in (("keys", self.keys, more.keys), ("values", self.value, more.value)):
                if (*one.shape[:-2], one.shape[-1]) != (*other.shape[:-2], other.shape[-1]):
                    raise ValueError(
                        f"memories must agree in all but the number of keys: got {name} {list(one.shape)} "
                        f"and {list(other.shape)}"
                    )
            _check_altered(more)
        keys, value = append_rows((self.keys, self.value), (more.keys, more.value))
        return Memory(keys, value, None, self.causal)


@dataclass
class Call:
    """Queries that attend to a memory: the arguments of one call of an attention.

    Attributes:
        window: restricts by position which keys a query may attend to.
        query: the queries `[..., Q, dq]`.
        memory: what they attend to.
        offset: position of the first query.
        bias: added to the scores, broadcastable to `[..., Q, K]`.
    """

    window: Window
    query: Tensor
    memory: Memory
    offset: int = 0
    bias: Tensor | None = None
    _span: Span | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        mask = self.memory.mask
        if mask is not None and mask.shape[-1] == 1 and known_all_true(mask):  # as `make_memory` leaves it
            self.memory = self.memory._replace(mask=None)

    @property
    def span(self) -> Span:
        """The mask, causal order and window combined; computed on first access."""
        if self._span is None:
            keys, mask = self.memory.keys.shape[-2], self.memory.mask
            if self.memory.hides_later_keys(self.offset):
                earlier = causal_mask(self.query.shape[-2], keys, self.query.device, offset=self.offset)
                mask = earlier if mask is None else mask & earlier
            span = self.window(self.query, keys, mask, self.offset)
            check_span(span, self.window, self.query.shape[-2], keys)
            if mask is not None:
                span = span._replace(mask=mask if span.mask is None else mask & span.mask)
            self._span = span
        return self._span


def make_memory(
    score: Score, key: Tensor, value: Tensor | None, mask: Tensor | None, *, causal: bool
) -> Memory:
    """The memory of keys `[..., K, dk]` and values `[..., K, dv]`: see `Attention.remember`."""
    value = key if value is None else value
    check_tensors("remember", key=key, value=value)
    if mask is not None:
        check_tensors("remember", mask=mask)
    _check_causal(causal)
    check_memory(key, value, mask, score)
    examples = None
    if mask is not None and known_all_true(mask):
        examples = mask.new_empty(*mask.shape[:-2], 1, 1)
        rows = mask.shape[-2]  # which must be as many as the queries, even if they hide nothing
        mask = None if rows == 1 else mask.new_ones(rows, 1)
    elif mask is not None:
        hidden = ~mask.any(-2, keepdim=True).transpose(-2, -1)  # the older exporter to ONNX lacks `mT`
        same = value is key
        key = key.masked_fill(hidden, 0.0)
        value = key if same else value.masked_fill(hidden, 0.0)
    keys = score.keys(key)
    check_keys(keys, score, key)
    if examples is not None:  # what all share is that of each example, as where the mask hides a key
        keys, value = (torch.broadcast_tensors(x, examples)[0] for x in (keys, value))  # type: ignore[no-untyped-call]
    return Memory(keys, value, mask, causal)


def _check_causal(causal: object) -> None:
    """Raise TypeError if whether a memory is causal is a mask or a text, which would always be true."""
    if isinstance(causal, str | Tensor):
        raise TypeError(f"causal must be True or False, not {kind_of(causal)}: a mask belongs to mask=...")


def check_tensors(call: str, **given: object) -> None:
    """Raise TypeError if an argument is not a tensor."""
    for name, argument in given.items():
        if not isinstance(argument, Tensor):
            raise TypeError(f"{call} takes a tensor as {name}, not {kind_of(argument)}")


def check_memory(key: Tensor, value: Tensor, mask: Tensor | None, score: Score) -> None:
    """Raise ValueError for integer values, or shapes that do not match: a kernel would read beyond the end.

    Args:
        key: `[..., K, dk]`.
        value: `[..., K, dv]`.
        mask: boolean; see `Attention.remember`.
        score: made for keys of one size, with or without heads.
    """
    if not value.is_floating_point():  # the weights would be rounded, too
        raise ValueError(f"values must be floating-point, got {value.dtype}: give value.float()")
    if torch.compiler.is_compiling():  # looking at shapes would recompile for each of them
        return
    if key.dim() < 2 or value.dim() < 2:
        raise ValueError(
            f"keys and values must be [..., K, d], got {list(key.shape)} and {list(value.shape)}"
        )
    batch, (keys, features) = key.shape[:-2], key.shape[-2:]
    if features != score.key_size:
        raise ValueError(f"the score was made for keys of size {score.key_size}, got {list(key.shape)}")
    heads = score.heads
    # A score without parameters computes the same for any number of heads.
    if heads is not None and not broadcast(batch[-1:], (heads,)) and any(True for _ in score.parameters()):
        raise ValueError(
            f"the score was made for {heads} heads, keys [B, {heads}, K, {features}], got {list(key.shape)}"
        )
    if value.shape[-2] != keys or not broadcast(value.shape[:-2], batch):
        raise ValueError(f"each key needs a value: got keys {list(key.shape)} and values {list(value.shape)}")
    if mask is None:
        return
    check_mask(mask)
    _check_leading(mask, key)
    if mask.dim() < 2 or mask.shape[-1] not in (1, keys) or not broadcast(mask.shape[:-2], batch):
        raise ValueError(
            "a mask must broadcast to [..., Q, K] and have at least two dimensions, such as [B, 1, K] for "
            f"padding: got {list(mask.shape)} for keys {list(key.shape)}"
        )


def checked_memory(call: str, memory: object) -> Memory:
    """The memory. Raises TypeError if it does not come from `remember`."""
    if not isinstance(memory, Memory):
        given = kind_of(memory)
        raise TypeError(f"{call} takes the memory that remember(...) returns, not {given}")
    return memory


def check_query(query: Tensor, memory: object, size: int, bias: object = None, offset: object = 0) -> None:
    """Reject queries `[..., Q, dq]` and a bias that do not fit the score or the memory.

    Raises:
        TypeError: the memory does not come from `Attention.remember`, or the bias is not a float tensor.
        ValueError: the shapes do not fit, or only some tensors have values.
        LabError: the offset is not a whole number.
    """
    check_tensors("attention", query=query)
    memory = checked_memory("attention(query, memory)", memory)
    if bias is not None and not (isinstance(bias, Tensor) and bias.is_floating_point()):
        given = str(bias.dtype) if isinstance(bias, Tensor) else type(bias).__name__
        raise TypeError(
            f"a bias must be a floating-point tensor, which is added to the scores, not {given}; "
            "a boolean mask belongs to attention.remember(keys, mask=...)"
        )
    check_count("offset", offset)
    if torch.compiler.is_compiling():
        return
    if query.dim() < 2 or query.shape[-1] != size:
        raise ValueError(f"the score was made for queries of size {size}, got {list(query.shape)}")
    _check_altered(memory)
    tensors = {"keys": memory.keys, "values": memory.value, "queries": query}
    without = [name for name, tensor in tensors.items() if tensor.is_meta]
    if 0 < len(without) < len(tensors):  # some kernels would read anything
        raise ValueError(f"the {without[0]} are on the meta device and have no values")
    rows = 1 if memory.mask is None else memory.mask.shape[-2]
    if rows not in (1, query.shape[-2]):
        raise ValueError(
            f"a mask with {rows} rows does not fit queries {list(query.shape)}: give one row for all of them "
            f"or one for each of the {query.shape[-2]}; a mask [B, K] for padding becomes mask.unsqueeze(1)"
        )
    if isinstance(bias, Tensor) and bias.is_meta and not query.is_meta:  # a fused kernel would read anything
        raise ValueError(f"the bias is {NO_VALUES}")
    if not broadcast(query.shape[:-2], memory.keys.shape[:-2]):
        raise ValueError(
            f"queries {list(query.shape)} and keys {list(memory.keys.shape)} must agree in all dimensions "
            "but the last two, such as the batch, or have size 1 there"
        )
    if isinstance(bias, Tensor) and not broadcast(bias.shape, (*query.shape[:-1], memory.keys.shape[-2])):
        raise ValueError(
            f"a bias {list(bias.shape)} does not broadcast to the scores "
            f"{[*query.shape[:-1], memory.keys.shape[-2]]}"
        )


def _check_altered(memory: Memory) -> None:
    """Raise ValueError if a part of a memory was replaced by one that does not fit the others."""
    keys, value = memory.keys, memory.value
    if keys.shape[-2] != value.shape[-2]:  # a fused kernel would read beyond the end
        raise ValueError(
            f"each key of a memory needs a value: got keys {list(keys.shape)} and values {list(value.shape)}"
        )
    if memory.mask is not None:
        check_mask(memory.mask)


def _check_leading(mask: Tensor, key: Tensor) -> None:
    """Raise ValueError if a mask could be per example or per head and its shape does not tell which."""
    if key.dim() <= 2 or mask.dim() == key.dim() or mask.shape[:-2].numel() <= 1:
        return
    given = f"a mask {list(mask.shape)} for keys {list(key.shape)}"
    if mask.dim() > key.dim():
        raise ValueError(f"{given} has too many dimensions: give as many as the keys have, [..., Q, K]")
    *batch, keys, _ = key.shape
    ones = ["1"] * (len(batch) - 1)
    example, head = ", ".join([str(batch[0]), *ones]), ", ".join([*ones, str(batch[-1])])
    raise ValueError(
        f"{given} is ambiguous, per example or per head: give [{example}, 1, {keys}] to hide padding, "
        f"[{example}, Q, {keys}] to mask each example's queries, or [{head}, Q, {keys}] to mask each head's"
    )
