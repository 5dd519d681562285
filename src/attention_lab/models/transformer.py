"""The Transformer: encoder and decoder of attention alone (1706.03762), with any mechanism in its heads."""

from dataclasses import replace

from jaxtyping import Int
from torch import Tensor

from attention_lab.attention import Location, Mechanism, QueryFree, lengths_mask
from attention_lab.attention.positions import Learned
from attention_lab.constructor_options import common_options, options_of
from attention_lab.models.parts.ctc import CTCHead
from attention_lab.models.parts.embedding import ScaledEmbedding
from attention_lab.models.parts.encoded import Encoded
from attention_lab.models.parts.encoder import Encoder
from attention_lab.models.parts.transformer_decoder import TransformerDecoder
from attention_lab.models.specs import EncoderSpec, TransformerSpec
from attention_lab.models.transduction import TransductionModel
from attention_lab.sizes import TransductionSizes


class Transformer(TransductionModel):
    """Encoder-decoder based on attention alone: `p(y | x) = prod_t p(y_t | y_<t, x)` (1706.03762, section 3).

    Its states cache the keys and values of earlier symbols. Training has no single attended position as a
    latent variable. The last attention to the source is compared with a gold alignment.

    Args:
        mechanism: the attention in every head of the encoder, the decoder and between them.
        sizes: the vocabularies.
        options: see `TransformerSpec`.

    Raises:
        LabError: a size is below 1, `heads` does not divide `d_model`, or the positions are unknown.
    """

    decoder: TransformerDecoder

    @options_of(TransformerSpec)
    def __init__(self, mechanism: Mechanism, sizes: TransductionSizes, spec: TransformerSpec) -> None:
        super().__init__()
        vocabulary, size = sizes.target_vocabulary, spec.d_model
        decoder_layers = spec.layers if spec.decoder_layers is None else spec.decoder_layers
        self.encoder_embedding = ScaledEmbedding(sizes.source_vocabulary, size, spec.scale_embedding)
        self.encoder = Encoder(mechanism, **common_options(spec, EncoderSpec))
        self.decoder = TransformerDecoder(mechanism, vocabulary, replace(spec, layers=decoder_layers))
        self.tagger = CTCHead(size, vocabulary, spec.ctc_frames, spec.dropout) if spec.ctc_frames else None
        self.alignment = f"decoder.layers.{decoder_layers - 1}.cross.attention"

    @property
    def longest(self) -> int:
        """The longest output, in symbols; limited only by learned positions or scores of positions."""
        tables = [part.length for part in self.decoder.modules() if isinstance(part, Location | QueryFree)]
        tables += [len(part.table) for part in self.decoder.modules() if isinstance(part, Learned)]
        return min(tables, default=super().longest)

    def encode(self, source: Int[Tensor, "B S"], source_lengths: Int[Tensor, " B"]) -> Encoded:
        """The annotations of the sources, which serve as both keys and values."""
        x = self.encoder(self.encoder_embedding(source), source_lengths)
        return Encoded(x, x, lengths_mask(source_lengths, source.shape[1]), [])
