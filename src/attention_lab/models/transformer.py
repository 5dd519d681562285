"""The Transformer: encoder and decoder of attention alone (1706.03762), with any mechanism in its heads."""

from dataclasses import replace

from jaxtyping import Float, Int
from torch import Tensor, nn

from attention_lab.attention import Location, Mechanism, QueryFree, lengths_mask
from attention_lab.attention.positions import Learned
from attention_lab.constructor_options import options_of, shared
from attention_lab.models.parts.ctc import CTCHead
from attention_lab.models.parts.embedding import ScaledEmbedding
from attention_lab.models.parts.encoded import Encoded
from attention_lab.models.parts.encoder import Encoder
from attention_lab.models.parts.transformer_decoder import TransformerDecoder, TransformerState
from attention_lab.models.seq2seq import shifted
from attention_lab.models.specs import EncoderSpec, TransformerSpec
from attention_lab.sizes import TransductionSizes


class Transformer(nn.Module):
    """Encoder-decoder based on attention alone: `p(y | x) = prod_t p(y_t | y_<t, x)` (1706.03762, section 3).

    In training, `forward` (which is `encode`, then `read`) gives logits for the gold output. The searches of
    `decoding` generate symbol by symbol with `start`, `step` and `select`, which cache the keys and values of
    earlier symbols.

    Args:
        mechanism: the attention in every head of the encoder, the decoder and between them.
        sizes: the vocabularies.
        options: see `TransformerSpec`.

    Attributes:
        latent: None, because training has no single attended position as a latent variable.
        alignment: name of the attention that is compared with a gold alignment: the last one to the source.

    Raises:
        LabError: a size is below 1, `heads` does not divide `d_model`, or the positions are unknown.
    """

    latent: None = None

    @options_of(TransformerSpec)
    def __init__(self, mechanism: Mechanism, sizes: TransductionSizes, spec: TransformerSpec) -> None:
        super().__init__()
        vocabulary, size = sizes.target_vocabulary, spec.d_model
        decoder_layers = spec.layers if spec.decoder_layers is None else spec.decoder_layers
        self.encoder_embedding = ScaledEmbedding(sizes.source_vocabulary, size, spec.scale_embedding)
        self.encoder = Encoder(mechanism, **shared(spec, EncoderSpec))
        self.decoder = TransformerDecoder(mechanism, vocabulary, replace(spec, layers=decoder_layers))
        self.tagger = CTCHead(size, vocabulary, spec.ctc_frames, spec.dropout) if spec.ctc_frames else None
        self.alignment = f"decoder.layers.{decoder_layers - 1}.cross.attention"

    @property
    def longest(self) -> int:
        """The longest output, in symbols; limited only by learned positions or scores of positions."""
        tables = [part.length for part in self.decoder.modules() if isinstance(part, Location | QueryFree)]
        tables += [len(part.table) for part in self.decoder.modules() if isinstance(part, Learned)]
        return min(tables, default=2**31)

    def forward(
        self, source: Int[Tensor, "B S"], source_lengths: Int[Tensor, " B"], target: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """Logits under teacher forcing: `logits[:, t]` predicts `target[:, t]` from the symbols before it.

        Args:
            source: symbols, padded.
            source_lengths: lengths of at least 1; padding beyond them has no effect.
            target: gold symbols that end in EOS, padded; the shift to the right happens here.
        """
        return self.read(self.encode(source, source_lengths), target)

    def encode(self, source: Int[Tensor, "B S"], source_lengths: Int[Tensor, " B"]) -> Encoded:
        """The annotations of the sources, which serve as both keys and values."""
        x = self.encoder(self.encoder_embedding(source), source_lengths)
        return Encoded(x, x, lengths_mask(source_lengths, source.shape[1]), [])

    def read(self, encoded: Encoded, target: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        """Logits under teacher forcing, for encoded sources; see `forward`."""
        logits, _ = self.decoder(shifted(target), self.decoder.start(encoded.keys, encoded.mask))
        return logits  # type: ignore[no-any-return]

    def start(self, source: Int[Tensor, "B S"], source_lengths: Int[Tensor, " B"]) -> TransformerState:
        """The state before the first symbol, for `step` with BOS."""
        encoded = self.encode(source, source_lengths)
        return self.decoder.start(encoded.keys, encoded.mask)

    def step(
        self, tokens: Int[Tensor, " N"], state: TransformerState
    ) -> tuple[Float[Tensor, "N V"], TransformerState]:
        """Logits of the symbols after `tokens`, and the state after them."""
        logits, state = self.decoder(tokens.unsqueeze(1), state)
        return logits.squeeze(1), state

    def select(self, state: TransformerState, index: Int[Tensor, " M"]) -> TransformerState:
        """The states of the sequences `index`, for a search that drops some and repeats others."""
        return state.select(index)

    def reorder(self, state: TransformerState, index: Int[Tensor, " N"]) -> TransformerState:
        """The states of the sequences `index`, each of the same source as the sequence it replaces."""
        return state.reorder(index)
