"""Decoder based on attention alone (1706.03762): all symbols at once, or step by step with a cache."""

from functools import partial
from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor, nn

from attention_lab.attention import Dropout, Mechanism, Memory, MultiHead
from attention_lab.attention.positions import Relative, make_absolute, make_relative
from attention_lab.models.parts.activation_checkpointing import run_layer
from attention_lab.models.parts.embedding import ScaledEmbedding, symbol_logits
from attention_lab.models.parts.encoded import Encoded
from attention_lab.models.parts.sublayers import FeedForward, SublayerNorm, final_norm
from attention_lab.models.specs import DecoderSpec, LayerSpec

LENGTH = 1024
"""The largest number of learned positions."""


class DecoderLayer(nn.Module):
    """One layer: attention to the symbols so far, to the source, and a feed-forward network.

        pre-norm:    x <- x + MHA(LN(x)),   x <- x + MHA(LN(x), source),   x <- x + FFN(LN(x))
        post-norm:   x <- LN(x + MHA(x)),   x <- LN(x + MHA(x, source)),   x <- LN(x + FFN(x))

    1706.03762, section 3.1. Relative positions act only on self-attention, because differences of positions
    between target and source have no meaning.
    """

    def __init__(self, mechanism: Mechanism, spec: LayerSpec, relative: Relative | None) -> None:
        super().__init__()
        size = spec.d_model
        attention = partial(
            MultiHead,
            mechanism,
            size,
            spec.heads,
            spec.attention_dropout,
            key_value_heads=spec.key_value_heads,
        )
        self.self_norm = SublayerNorm(size, spec.norm)
        self.self = attention(relative=relative)
        self.cross_norm = SublayerNorm(size, spec.norm)
        self.cross = attention()
        self.feedforward_norm = SublayerNorm(size, spec.norm)
        self.feedforward = FeedForward(size, spec.feedforward, spec.dropout)
        self.dropout = Dropout(spec.dropout)

    def forward(
        self, x: Float[Tensor, "B n d"], source: Memory, cache: Memory | None, offset: int
    ) -> tuple[Float[Tensor, "B n d"], Memory]:
        """The output for n more positions from `offset` on, and the memory that includes them."""
        attended, cache = self.self.step(self.self_norm.before(x), cache)
        x = self.self_norm.add(x, self.dropout(attended))
        context = self.cross.attend(self.cross_norm.before(x), source, offset=offset)
        x = self.cross_norm.add(x, self.dropout(context))
        output = self.feedforward(self.feedforward_norm.before(x))
        return self.feedforward_norm.add(x, self.dropout(output)), cache


class TransformerState(NamedTuple):
    """The state of a decoder for N sequences; passed explicitly, never stored in the model.

    Attributes:
        source: keys and values of the source in each layer, projected once.
        cache: keys and values of the symbols so far, in each layer; None before the first symbol.
        position: number of symbols read, which is the position of the next one.
    """

    source: tuple[Memory, ...]
    cache: tuple[Memory | None, ...]
    position: int = 0

    def select(self, index: Int[Tensor, " M"]) -> "TransformerState":
        """The states of the sequences `index`."""
        return self.reorder(index)._replace(source=tuple(memory.select(index) for memory in self.source))

    def reorder(self, index: Int[Tensor, " N"]) -> "TransformerState":
        """The states of the sequences `index`, each of the same source as the sequence it replaces."""
        cache = tuple(None if memory is None else memory.select(index) for memory in self.cache)
        return self._replace(cache=cache)


class TransformerDecoder(nn.Module):
    """Target embedding, positions, a stack of `DecoderLayer`, a final norm if they are pre-norm, and logits.

    Args:
        mechanism: the attention in every head.
        vocabulary: number of target symbols.
        spec: the options of the decoder.
    """

    def __init__(self, mechanism: Mechanism, vocabulary: int, spec: DecoderSpec) -> None:
        super().__init__()
        size, heads = spec.d_model, spec.heads
        self.checkpointing = spec.checkpointing
        self.embedding = ScaledEmbedding(vocabulary, size, spec.scale_embedding)
        self.positions = make_absolute(spec.positions, size, LENGTH)
        self.dropout = Dropout(spec.dropout)
        self.layers = nn.ModuleList(
            DecoderLayer(mechanism, spec, make_relative(spec.positions, heads, size // heads, causal=True))
            for _ in range(spec.layers)
        )
        self.norm = final_norm(size, spec.norm)
        self.output = None if spec.tie_embedding else nn.Linear(size, vocabulary, bias=False)

    def start(self, encoded: Encoded) -> TransformerState:
        """The state before the first symbol, for an encoded source."""
        memories = []
        for layer in self.layers:
            assert isinstance(layer, DecoderLayer)
            memories.append(layer.cross.remember(encoded.keys, encoded.mask))
        return TransformerState(tuple(memories), (None,) * len(memories))

    def forward(
        self, tokens: Int[Tensor, "N n"], state: TransformerState
    ) -> tuple[Float[Tensor, "N n V"], TransformerState]:
        """Logits after each of n more symbols, and the new state; the same however the symbols are split."""
        x, offset = self.embedding(tokens), state.position
        x = self.dropout(x if self.positions is None else self.positions(x, offset))
        memories = []
        for layer, source, cache in zip(self.layers, state.source, state.cache, strict=True):
            assert isinstance(layer, DecoderLayer)
            attention = layer.self.attention
            x, memory = run_layer(layer, attention, self.checkpointing, x, source, cache, offset)
            memories.append(memory)
        state = state._replace(cache=tuple(memories), position=offset + tokens.shape[1])
        return symbol_logits(self.norm(x), self.output, self.embedding), state
