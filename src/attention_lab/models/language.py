"""Causal self-attention language model: `p(y_t | y_<t)` from the last vector of a Transformer."""

from jaxtyping import Float, Int
from torch import Tensor, nn

from attention_lab.attention import Mechanism
from attention_lab.models.options import check_at_least
from attention_lab.models.parts.embedding import ScaledEmbedding
from attention_lab.models.parts.encoder import Encoder, EncoderState
from attention_lab.sizes import LanguageSizes


class LanguageModel(nn.Module):
    """Embedding, causal encoder, and logits of the next symbol from the vector of the last one.

        h = Encoder(E y_1, ..., E y_t),   p(y_{t+1} | y_1 ... y_t) = softmax(W h_t)

    As the encoder is causal, one pass over a sequence gives the distribution after each of its symbols, and
    padding at its end changes nothing.

    Args:
        mechanism: the attention in every head.
        sizes: the number of symbols, and the most that are read at once.
        d_model: size of the representations.
        heads: heads in each layer.
        layers: number of layers.
        feedforward: hidden size of the feed-forward networks.
        dropout: on the embeddings and the output of each sublayer.
        attention_dropout: on the attention weights.
        positions: see `Encoder`.
        scale_embedding: multiply embeddings by sqrt(d_model).
        tie_embedding: let W be the table of the embeddings (1608.05859; 1706.03762, section 3.4).
        checkpointing: save memory in training and compute the layers twice; see `Encoder`.

    Attributes:
        length: the most symbols that are read at once.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        sizes: LanguageSizes,
        *,
        d_model: int,
        heads: int,
        layers: int,
        feedforward: int,
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        positions: str = "sinusoidal",
        scale_embedding: bool = True,
        tie_embedding: bool = True,
        checkpointing: bool = False,
    ) -> None:
        super().__init__()
        check_at_least(1, d_model=d_model, heads=heads, layers=layers, feedforward=feedforward)
        self.length = sizes.length
        self.embedding = ScaledEmbedding(sizes.vocabulary, d_model, scale_embedding)
        self.encoder = Encoder(
            mechanism,
            d_model=d_model,
            heads=heads,
            layers=layers,
            feedforward=feedforward,
            dropout=dropout,
            attention_dropout=attention_dropout,
            causal=True,
            positions=positions,
            length=sizes.length,
            checkpointing=checkpointing,
        )
        self.output = None if tie_embedding else nn.Linear(d_model, sizes.vocabulary, bias=False)

    def forward(self, tokens: Int[Tensor, "B L"]) -> Float[Tensor, "B L V"]:
        """Logits of what follows each symbol."""
        return self._logits(self.encoder(self.embedding(tokens)))

    def start(self, tokens: Int[Tensor, "B L"]) -> tuple[Float[Tensor, "B V"], EncoderState]:
        """Logits of what follows sequences of one length, and the state after them."""
        logits, state = self._read(tokens, None)
        return logits[:, -1], state

    def step(
        self, tokens: Int[Tensor, " B"], state: EncoderState
    ) -> tuple[Float[Tensor, "B V"], EncoderState]:
        """Logits of what follows one more symbol of each sequence, and the state after it."""
        logits, state = self._read(tokens.unsqueeze(-1), state)
        return logits[:, -1], state

    def select(self, state: EncoderState, index: Int[Tensor, " N"]) -> EncoderState:
        """The states of the sequences `index`, some left out, some repeated."""
        return state.select(index)

    def _read(self, tokens: Tensor, state: EncoderState | None) -> tuple[Tensor, EncoderState]:
        vectors, state = self.encoder.step(self.embedding(tokens), state)
        return self._logits(vectors), state

    def _logits(self, vectors: Tensor) -> Tensor:
        if self.output is not None:
            logits: Tensor = self.output(vectors)
            return logits
        return self.embedding.logits(vectors)
