"""Multi-head self-attention encoder (1706.03762), for entire sequences at once or step by step."""

from typing import NamedTuple

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attention_lab.attention import Dropout, Mechanism, Memory, MultiHead, lengths_mask
from attention_lab.attention.fast.packed import Packing, make_packing
from attention_lab.attention.masks import known_all_true
from attention_lab.attention.positions import Layout, Relative, make_absolute, make_relative
from attention_lab.constructor_options import options_of
from attention_lab.models.parts.activation_checkpointing import run_layer
from attention_lab.models.parts.sublayers import FeedForward, SublayerNorm, final_norm
from attention_lab.models.specs import EncoderSpec, LayerSpec


class EncoderLayer(nn.Module):
    """One layer: self-attention and a feed-forward network (1706.03762, section 3.1).

        pre-norm:    x <- x + MHA(LN(x)),   x <- x + FFN(LN(x))
        post-norm:   x <- LN(x + MHA(x)),   x <- LN(x + FFN(x))

    The paper has post-norm layers. Pre-norm layers (2002.04745) train without a warm-up.
    """

    def __init__(self, mechanism: Mechanism, spec: LayerSpec, relative: Relative | None = None) -> None:
        super().__init__()
        size = spec.d_model
        self.attention_norm = SublayerNorm(size, spec.norm)
        self.attention = MultiHead(
            mechanism,
            size,
            spec.heads,
            spec.attention_dropout,
            relative=relative,
            key_value_heads=spec.key_value_heads,
        )
        self.feedforward_norm = SublayerNorm(size, spec.norm)
        self.feedforward = FeedForward(size, spec.feedforward, spec.dropout)
        self.dropout = Dropout(spec.dropout)

    def forward(
        self,
        x: Float[Tensor, "*B L d"],
        mask: Bool[Tensor, "..."] | None,
        *,
        packing: Packing | None = None,
        causal: bool = False,
    ) -> Float[Tensor, "*B L d"]:
        """The layer's output under a mask `[B, 1, L]` for padding, or `[B, L, L]` for the edges of a graph.

        With a packing, `x` holds only the rows `[N, d]` of the real positions, and there is no mask.
        """
        attended = self.attention(self.attention_norm.before(x), mask, packing=packing, causal=causal)
        return self._feed_forward(self.attention_norm.add(x, self.dropout(attended)))

    def step(self, x: Float[Tensor, "B n d"], memory: Memory | None) -> tuple[Float[Tensor, "B n d"], Memory]:
        """The output for n more positions, and the memory that includes them."""
        attended, memory = self.attention.step(self.attention_norm.before(x), memory)
        return self._feed_forward(self.attention_norm.add(x, self.dropout(attended))), memory

    def _feed_forward(self, x: Tensor) -> Tensor:
        output = self.feedforward(self.feedforward_norm.before(x))
        return self.feedforward_norm.add(x, self.dropout(output))


class EncoderState(NamedTuple):
    """The state of a causal encoder after the positions of N sequences read so far.

    Attributes:
        memories: the keys and values of each layer.
        position: number of positions read, which is the index of the next one.
    """

    memories: tuple[Memory, ...]
    position: int

    def select(self, index: Int[Tensor, " M"]) -> "EncoderState":
        """The states of the sequences `index`."""
        return EncoderState(tuple(memory.select(index) for memory in self.memories), self.position)


class Encoder(nn.Module):
    """Positions, then a stack of `EncoderLayer`; if they are pre-norm layers, a final norm.

    Args:
        mechanism: the attention in every head.
        options: see `EncoderSpec`.
    """

    @options_of(EncoderSpec)
    def __init__(self, mechanism: Mechanism, spec: EncoderSpec) -> None:
        super().__init__()
        size, heads = spec.d_model, spec.heads
        self.causal = spec.causal
        self.checkpointing = spec.checkpointing
        self.positions = make_absolute(spec.positions, size, spec.length)
        self.dropout = Dropout(spec.dropout)
        layout: Layout = {"prefix": spec.prefix, "grid": spec.grid, "causal": spec.causal}
        self.layers = nn.ModuleList(
            EncoderLayer(mechanism, spec, make_relative(spec.positions, heads, size // heads, **layout))
            for _ in range(spec.layers)
        )
        self.norm = final_norm(size, spec.norm)

    def forward(
        self, x: Float[Tensor, "B L d"], lengths: Int[Tensor, " B"] | None = None
    ) -> Float[Tensor, "B L d"]:
        """Representations of all positions, zero beyond a length; padding has no effect.

        Padding is not computed where skipping it pays off: see `attention.fast.packed`.
        """
        mask = None if lengths is None else lengths_mask(lengths, x.shape[1])
        if mask is None or known_all_true(mask):
            return self._encode(self._with_positions(x, 0))
        packing = make_packing(mask, x.shape[-1])
        if packing is not None:
            return packing.unpack(self._encode(packing.pack(self._with_positions(x, 0)), packing=packing))
        padding = ~mask.mT
        x = self._with_positions(x.masked_fill(padding, 0.0), 0)
        return self._encode(x, mask).masked_fill(padding, 0.0)

    def step(
        self, x: Float[Tensor, "B n d"], state: EncoderState | None
    ) -> tuple[Float[Tensor, "B n d"], EncoderState]:
        """Representations of n more positions after those of `state`, and the new state.

        The result equals that of `forward`, however a sequence is split into steps.

        Raises:
            ValueError: the encoder is not causal.
        """
        if not self.causal:
            raise ValueError(
                "only a causal encoder can run step by step: in others, earlier positions would change"
            )
        offset = 0 if state is None else state.position
        before = [None] * len(self.layers) if state is None else state.memories
        x = self._with_positions(x, offset)
        memories = []
        for layer, memory in zip(self.layers, before, strict=True):
            assert isinstance(layer, EncoderLayer)
            x, memory = layer.step(x, memory)
            memories.append(memory)
        return self.norm(x), EncoderState(tuple(memories), offset + x.shape[1])

    def _encode(self, x: Tensor, mask: Tensor | None = None, packing: Packing | None = None) -> Tensor:
        """The layers and, if they are pre-norm layers, the final norm."""
        how = {"packing": packing, "causal": self.causal}
        for layer in self.layers:
            assert isinstance(layer, EncoderLayer)
            x = run_layer(layer, layer.attention.attention, self.checkpointing, x, mask, **how)
        output: Tensor = self.norm(x)
        return output

    def _with_positions(self, x: Tensor, offset: int) -> Tensor:
        """The input, with absolute positions added if the model uses them."""
        x = x if self.positions is None else self.positions(x, offset)
        dropped: Tensor = self.dropout(x)
        return dropped
