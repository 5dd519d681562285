"""`Memory`, the keys and values that queries attend to, and `Call`, the arguments of one call."""

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from attention_lab.argument_checks import kind_of
from attention_lab.attention.checks.keys import check_causal, check_fields, check_memory
from attention_lab.attention.checks.returned import check_keys, check_span
from attention_lab.attention.checks.tensors import check_indices, check_tensors
from attention_lab.attention.fast.key_value_cache import append_rows
from attention_lab.attention.masks import causal_mask, known_all_true
from attention_lab.attention.scores import Score
from attention_lab.attention.torch_state import has_values
from attention_lab.attention.windows import Span, Window


class Memory(NamedTuple):
    """What queries attend to: computed once for a source by `Attention.remember`, then passed on.

    In decoding it is the key-value cache: `MultiHead.step` extends it by the new positions.

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

    def __repr__(self) -> str:
        """The shapes, without the numbers."""
        tensors = zip(self._fields, self[:3], strict=False)
        shapes = ", ".join(f"{name}={list(x.shape)}" for name, x in tensors if x is not None)
        return f"Memory({shapes}, causal={self.causal})"

    def hides_later_keys(self, offset: int) -> bool:
        """Whether the causal order hides any key from queries at `offset`, `offset + 1`, ...

        Always True for a causal memory in compiled or traced code, where sizes may change later.
        """
        return self.causal and (offset < self.value.shape[-2] - 1 or not has_values(self.value))

    def select(self, index: Int[Tensor, " N"]) -> "Memory":
        """The memories of the examples `index`, for example for the beams of a search.

        Tensors that all examples share stay as they are; keys, values or mask must have a batch dimension.

        Raises:
            TypeError: the index is not an integer tensor.
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
        """This memory with the keys, values and mask of `more` appended; without a mask, no key is hidden.

        Without gradients, the second and later calls copy only `more` and the mask: see
        `fast.key_value_cache`.

        Raises:
            TypeError: `more` is not a memory.
            ValueError: a mask differs between queries, only one of them is causal, they differ in more than
                the number of keys, or `more` has keys without values.
        """
        if not isinstance(more, Memory):
            raise TypeError(f"extend takes the memory that remember(...) returns, not {kind_of(more)}")
        masks = [x.mask for x in (self, more) if x.mask is not None]
        if any(mask.shape[-2] != 1 for mask in masks):
            raise ValueError(
                "a memory with a row of its mask for each query cannot be extended: give one row for all "
                "queries, such as [B, 1, K]"
            )
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
            check_fields(more.keys, more.value, more.mask)
        keys, value = append_rows((self.keys, self.value), (more.keys, more.value))
        return Memory(keys, value, _appended_mask(self, more) if masks else None, self.causal)


def _appended_mask(first: Memory, second: Memory) -> Tensor:
    """The masks of two memories, of one row each, one after the other; a missing one hides no key."""
    shown = torch.ones(1, 1, dtype=torch.bool, device=first.keys.device)
    masks = [shown if one.mask is None else one.mask for one in (first, second)]
    sizes = [one.keys.shape[-2] for one in (first, second)]
    *leading, _ = torch.broadcast_tensors(*(mask[..., :1] for mask in masks))[0].shape  # type: ignore[no-untyped-call]
    return torch.cat([mask.expand(*leading, size) for mask, size in zip(masks, sizes, strict=True)], -1)


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
        # Such a mask hides nothing: `make_memory` keeps only its number of rows.
        if mask is not None and mask.shape[-1] == 1 and known_all_true(mask):
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
    check_causal(causal)
    check_memory(key, value, mask, score)
    examples = None
    if mask is not None and known_all_true(mask) and mask.shape[-2]:  # without a query, no key is seen
        examples = mask.new_empty(*mask.shape[:-2], 1, 1)
        rows = mask.shape[-2]  # kept: there must be one for each query, even if none hides a key
        mask = None if rows == 1 else mask.new_ones(rows, 1)
    elif mask is not None:
        hidden = ~mask.any(-2, keepdim=True).transpose(-2, -1)  # the older exporter to ONNX lacks `mT`
        same = value is key
        key = key.masked_fill(hidden, 0.0)
        value = key if same else value.masked_fill(hidden, 0.0)
    keys = score.keys(key)
    check_keys(keys, score, key)
    if examples is not None:  # give each example its own rows, as a mask that hides keys does
        keys, value = (torch.broadcast_tensors(x, examples)[0] for x in (keys, value))  # type: ignore[no-untyped-call]
    return Memory(keys, value, mask, causal)
