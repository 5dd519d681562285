"""Causal self-attention language model: `p(y_t | y_<t)` from the last vector of a Transformer."""

from jaxtyping import Float, Int
from torch import Tensor, nn

from attention_lab.attention import Mechanism
from attention_lab.constructor_options import common_options, options_of
from attention_lab.models.parts.embedding import ScaledEmbedding, symbol_logits
from attention_lab.models.parts.encoder import Encoder, EncoderState
from attention_lab.models.specs import EncoderSpec, LanguageSpec
from attention_lab.sizes import LanguageSizes


class LanguageModel(nn.Module):
    """Embedding, causal encoder, and logits of the next symbol from the vector of the last one.

        h = Encoder(E y_1, ..., E y_t),   p(y_{t+1} | y_1 ... y_t) = softmax(W h_t)

    Because the encoder is causal, one pass over a sequence gives the distribution after each of its symbols,
    and padding at its end has no effect.

    Args:
        mechanism: the attention in every head.
        sizes: the vocabulary size and the context length.
        options: see `LanguageSpec`.

    Attributes:
        length: the context length, the largest number of symbols read at once.
    """

    @options_of(LanguageSpec)
    def __init__(self, mechanism: Mechanism, sizes: LanguageSizes, spec: LanguageSpec) -> None:
        super().__init__()
        self.length = sizes.length
        self.embedding = ScaledEmbedding(sizes.vocabulary, spec.d_model, spec.scale_embedding)
        self.encoder = Encoder(
            mechanism, **common_options(spec, EncoderSpec), causal=True, length=sizes.length
        )
        self.output = None if spec.tie_embedding else nn.Linear(spec.d_model, sizes.vocabulary, bias=False)

    def forward(self, tokens: Int[Tensor, "B L"]) -> Float[Tensor, "B L V"]:
        """Logits of the symbol after each position."""
        return self._logits(self.encoder(self.embedding(tokens)))

    def start(self, tokens: Int[Tensor, "B L"]) -> tuple[Float[Tensor, "B V"], EncoderState]:
        """Logits of the next symbol of sequences of equal length, and the state after them."""
        logits, state = self._read(tokens, None)
        return logits[:, -1], state

    def step(
        self, tokens: Int[Tensor, " B"], state: EncoderState
    ) -> tuple[Float[Tensor, "B V"], EncoderState]:
        """Logits of the next symbol after one more symbol of each sequence, and the state after it."""
        logits, state = self._read(tokens.unsqueeze(-1), state)
        return logits[:, -1], state

    def select(self, state: EncoderState, index: Int[Tensor, " N"]) -> EncoderState:
        """The states of the sequences `index`, which may omit and repeat sequences."""
        return state.select(index)

    def _read(self, tokens: Tensor, state: EncoderState | None) -> tuple[Tensor, EncoderState]:
        vectors, state = self.encoder.step(self.embedding(tokens), state)
        return self._logits(vectors), state

    def _logits(self, vectors: Tensor) -> Tensor:
        return symbol_logits(vectors, self.output, self.embedding)
