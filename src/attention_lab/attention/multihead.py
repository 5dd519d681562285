"""Multi-head attention: projections around one attention that runs all heads at once."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attention_lab.argument_checks import check_heads, kind_of
from attention_lab.attention.attention import Mechanism, check_mechanism
from attention_lab.attention.checks.positions import check_relative
from attention_lab.attention.checks.queries import checked_memory
from attention_lab.attention.checks.tensors import broadcast, check_count, check_tensors
from attention_lab.attention.fast.grouped import grouped_attention, remember_groups, with_all_heads
from attention_lab.attention.fast.packed import Packing
from attention_lab.attention.memory import Memory
from attention_lab.attention.positions import Relative
from attention_lab.attention.shortcuts import computes_as, ignores_hidden_keys


class MultiHead(nn.Module):
    """`Concat(head_1, ..., head_H) W^O`, `head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V)`.

    1706.03762, section 3.2.2, with any mechanism in the heads. A single head also has W^Q, W^K and W^V.

    Grouped-query attention (2305.13245, section 2.2) has G < H key-value heads, each shared by H / G query
    heads; multi-query attention (1911.02150) has one. Unless the score has parameters, only these G heads are
    remembered, and where all queries see the same keys, as in a step of decoding, they are not copied for
    each head.

    Args:
        mechanism: makes the attention of the heads; a score with parameters has separate ones for each head.
        size: d_model, the size of input and output.
        heads: H, a divisor of `size`; each head has d_k = d_v = size / H.
        dropout: dropout probability on the attention weights.
        relative: positions that rotate queries and keys or add a bias to the scores, made for these heads.
        key_value_heads: G, a divisor of `heads`; by default every head has its own keys and values.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        size: int,
        heads: int,
        dropout: float = 0.0,
        relative: Relative | None = None,
        key_value_heads: int | None = None,
    ) -> None:
        super().__init__()
        check_mechanism(mechanism)
        check_heads(size=size, heads=heads, key_value_heads=key_value_heads)
        check_relative(relative, heads)
        self.size, self.heads = size, heads
        self.key_value_heads = heads if key_value_heads is None else key_value_heads
        shared = self.key_value_heads * (size // heads)
        self.project = nn.Linear(size, size + 2 * shared)
        self.attention = mechanism(size // heads, size // heads, heads, dropout)
        self.output = nn.Linear(size, size)
        self.relative = relative
        # W^Q, W^K and W^V are three matrices stored as one: each is initialised with its own fan-out.
        for part in self.project.weight.tensor_split([size, size + shared]):
            nn.init.xavier_uniform_(part)
        nn.init.zeros_(self.project.bias)

    def extra_repr(self) -> str:
        """The size and the numbers of heads, for `print(model)`."""
        return f"size={self.size}, heads={self.heads}, key_value_heads={self.key_value_heads}"

    def forward(
        self,
        x: Float[Tensor, "*B L d"],
        mask: Bool[Tensor, "..."] | None = None,
        *,
        packing: Packing | None = None,
        causal: bool = False,
    ) -> Float[Tensor, "*B L d"]:
        """Self-attention of `x`.

        Args:
            x: the sequences `[B, L, d]`, or with a packing all sequences without padding, `[N, d]`.
            mask: `[B, 1, L]`, `[B, L, L]` or `[L, L]` for all heads, or `[B, H, L, L]`, True = attend.
            packing: which rows of `x` are a sequence, such as `Packing.of_lengths([40, 7, 12])`; rows
                attend only to their own sequence, in which the layer's positions, if any, start at 0.
            causal: let a position attend to itself and earlier ones only.

        Raises:
            TypeError: `x` or the mask is not a tensor, or the packing is something else.
            ValueError: `x` or the mask has the wrong shape, or a mask is given with a packing, which has its
                own mask.
        """
        if packing is None:
            check_sequences(x, self.size, mask)
            contexts = self._heads(self.project(x), mask, causal)
        elif not isinstance(packing, Packing):
            raise TypeError(f"packing must be a Packing, not {kind_of(packing)}: use Packing.of_lengths")
        elif mask is None:
            check_tensors("MultiHead", x=x)
            packing.check_rows(x, self.size)
            contexts = self._packed(self.project(x), packing, causal)
        else:
            raise ValueError("a packing has its own mask: give a mask or a packing, not both")
        output: Tensor = self.output(contexts)
        return output

    def remember(
        self,
        source: Float[Tensor, "B K d"],
        mask: Bool[Tensor, "..."] | None = None,
        *,
        causal: bool = False,
        offset: int = 0,
    ) -> Memory:
        """The keys and values of a source whose first row is at position `offset`, for `attend`.

        Args:
            source: the sequences `[B, K, d]`.
            mask: `[B, 1, K]`, `[B, Q, K]` or `[Q, K]` for all heads, or `[B, H, Q, K]`, True = attend.
            causal: let a query see only the keys up to its own position.
            offset: position of the first row of the source.

        Raises:
            ValueError: the source has the wrong shape, or its mask does not fit.
            LabError: the offset is not a whole number of at least 0.
        """
        check_sequences(source, self.size, mask)
        check_count("offset", offset, least=0)
        groups = self.key_value_heads
        key, value = self._split(self._projected(source, slice(self.size, None)), groups, groups)
        return self._remember(key, value, mask, causal, offset)

    def attend(
        self, query: Float[Tensor, "B Q d"], memory: Memory, *, offset: int = 0
    ) -> Float[Tensor, "B Q d"]:
        """Attention of queries at `offset`, `offset + 1`, ... to a remembered source that starts at 0.

        Raises:
            TypeError: the memory does not come from `remember`.
            ValueError: the queries have the wrong shape or do not fit the source, or the heads of the memory
                are not those of this layer.
            LabError: the offset is not a whole number of at least 0.
        """
        check_sequences(query, self.size)
        memory = checked_memory("attend(query, memory)", memory)
        check_count("offset", offset, least=0)
        self._check_heads(memory.value)
        (heads,) = self._split(self._projected(query, slice(self.size)), self.heads)
        output: Tensor = self.output(self._attend(heads, memory, offset))
        return output

    def step(
        self,
        x: Float[Tensor, "B n d"],
        memory: Memory | None = None,
        mask: Bool[Tensor, "..."] | None = None,
    ) -> tuple[Float[Tensor, "B n d"], Memory]:
        """Causal self-attention of a sequence that is read step by step, one or more positions at a time.

        The outputs of all steps equal those of `forward(..., causal=True)`, however a sequence is split.
        For example, to read a prompt and then one more position:

            output, memory = layer.step(prompt)
            output, memory = layer.step(next_position, memory)

        For prompts of different lengths, pad the shorter ones on the left, so that relative positions stay
        right, and hide the padding by a mask in the first step.

        Args:
            x: the next n positions.
            memory: of the positions before, from the last step; None in the first one.
            mask: `[B, 1, n]`, which of the next positions to attend to, now and in all later steps.

        Returns:
            The outputs for these positions, and the memory that includes them.

        Raises:
            TypeError: `x` is not a tensor, or the memory does not come from a step.
            ValueError: the sequences or the mask have the wrong shape, or the memory is not causal, or does
                not have the heads of this layer.
        """
        check_sequences(x, self.size, mask)
        if mask is not None and (mask.dim() != 3 or mask.shape[1] != 1):
            raise ValueError(f"a step takes a mask [B, 1, n] of its n positions, got {list(mask.shape)}")
        offset = 0 if memory is None else checked_memory("step(x, memory)", memory).value.shape[-2]
        query, key, value = self._split_all(self.project(x))
        more = self._remember(key, value, mask, True, offset)
        memory = more if memory is None else memory.extend(more)
        output: Tensor = self.output(self._attend(query, memory, offset))
        return output, memory

    def _check_heads(self, value: Tensor) -> None:
        """Raise ValueError if values are not laid out in this layer's heads, even if they would broadcast."""
        heads, size = {self.heads, self.key_value_heads}, self.size // self.heads
        if torch.compiler.is_compiling():
            return
        if value.dim() != 4 or value.shape[1] not in heads or value.shape[-1] != size:
            raise ValueError(
                f"the memory is not from remember(...) of a layer like this: it has values "
                f"{list(value.shape)}, not [B, {self.key_value_heads}, K, {size}]"
            )

    def _projected(self, x: Tensor, part: slice) -> Tensor:
        """One part of the projections; a plain linear layer need not compute the others."""
        project = self.project
        if computes_as(project, nn.Linear):
            return F.linear(x, project.weight[part], project.bias[part])
        projected: Tensor = project(x)  # quantized, with an adapter or with a hook
        return projected[..., part]

    def _heads(self, projected: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
        """The concatenated contexts of the heads, `[B, L, d]`, from the projections `[B, L, f]`."""
        query, key, value = self._split_all(projected)
        return self._attend(query, self._remember(key, value, mask, causal, 0), 0)

    def _packed(self, projected: Tensor, packing: Packing, causal: bool) -> Tensor:
        """The same for the rows `[N, f]` of packed sequences."""
        ignores_hidden = ignores_hidden_keys(self.attention.normalizer, self.attention.pooling)
        if not (ignores_hidden and packing.attends_apart(self.size)):
            return packing.pack(self._heads(packing.unpack(projected), packing.mask, causal))
        if self.attention.record is not None:
            query, key, value = self._split_all(packing.unpack(projected))
            memory = with_all_heads(self._remember(key, value, packing.mask, causal, 0), self.heads)
            query, bias = self._with_positions(query, memory, 0)
            self.attention.record_weights(query, memory, bias=bias)
        with self.attention.unrecorded():
            return torch.cat([self._heads(one, None, causal).squeeze(0) for one in packing.split(projected)])

    def _remember(self, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool, offset: int) -> Memory:
        if self.relative is not None:
            key = self.relative.rotate(key, offset)
        mask = mask.unsqueeze(1) if mask is not None and mask.dim() == 3 else mask  # shared by all heads
        return remember_groups(self.attention, key, value, mask, self.heads, causal=causal)

    def _with_positions(self, query: Tensor, memory: Memory, offset: int) -> tuple[Tensor, Tensor | None]:
        """Queries prepared for the score, and the bias that is added to it."""
        if self.relative is None:
            return query, None
        bias = self.relative.bias(query.shape[-2], memory.value.shape[-2], offset)
        return self.relative.rotate(query, offset), bias

    def _attend(self, query: Tensor, memory: Memory, offset: int) -> Tensor:
        query, bias = self._with_positions(query, memory, offset)
        contexts = grouped_attention(self.attention, query, memory, offset=offset, bias=bias)
        return contexts.transpose(1, 2).flatten(-2)

    def _split_all(self, projected: Tensor) -> tuple[Tensor, ...]:
        """The heads of queries, keys and values."""
        return self._split(projected, self.heads, self.key_value_heads, self.key_value_heads)

    def _split(self, projected: Tensor, *parts: int) -> tuple[Tensor, ...]:
        """Cut `[B, L, sum(parts) * dk]` into a tensor `[B, h, L, dk]` for each number of heads in `parts`."""
        batch, length, _ = projected.shape
        heads = projected.view(batch, length, sum(parts), self.size // self.heads).transpose(1, 2)
        return heads.split(parts, 1)  # type: ignore[no-untyped-call,no-any-return]


def check_sequences(x: Tensor, size: int, mask: Tensor | None = None) -> None:
    """Raise TypeError if `x` is not a tensor, and ValueError if it is not `[B, L, size]`."""
    check_tensors("MultiHead", x=x)
    if mask is not None:
        check_tensors("MultiHead", mask=mask)
    if not torch.compiler.is_compiling() and (x.dim() != 3 or x.shape[-1] != size):
        raise ValueError(f"MultiHead takes sequences [B, L, {size}], got {list(x.shape)}")
    if mask is not None and mask.is_floating_point() and mask.shape[-1:] == x.shape[-1:]:
        batch, length, _ = x.shape
        if mask is x or not broadcast(mask.shape, (batch, length, length)):
            raise ValueError(
                "MultiHead(x, mask) is self-attention: for keys from another source call attend(x, "
                "remember(source)), or use MultiheadAttention(query, key, value), called like torch's"
            )
