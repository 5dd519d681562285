"""Recurrent encoder-decoders with attention."""

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from attention_lab.attention import Global, Mechanism, Monotonic
from attention_lab.constructor_options import options_of
from attention_lab.errors import LabError
from attention_lab.models.parts.copying import Copying
from attention_lab.models.parts.ctc import CTCHead
from attention_lab.models.parts.encoded import Encoded
from attention_lab.models.parts.monotonic import MonotonicDecoder
from attention_lab.models.parts.recurrent_decoder import AttentiveDecoder
from attention_lab.models.parts.recurrent_encoder import RecurrentEncoder
from attention_lab.models.specs import Seq2SeqSpec
from attention_lab.models.transduction import TransductionModel, shifted
from attention_lab.sizes import TransductionSizes


class EncoderDecoder(TransductionModel):
    """An encoder of any kind and a recurrent decoder that attends to its annotations.

    Args:
        encoder: called with sources and their lengths, returns an `Encoded`.
        decoder: the decoder.
        ctc_head: also reads the annotations, in training and for rescoring.
    """

    decoder: AttentiveDecoder
    alignment = "decoder.attention"

    def __init__(
        self, encoder: nn.Module, decoder: AttentiveDecoder, ctc_head: CTCHead | None = None
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.tagger = ctc_head  # checkpoints use this name

    @property
    def latent(self) -> nn.Module | None:
        """The pooling of the decoder's attention; if it is hard, training treats its position as latent."""
        return self.decoder.attention.pooling

    def encode(self, source: Shaped[Tensor, "B S *rest"], source_lengths: Int[Tensor, " B"]) -> Encoded:
        """The annotations of the sources."""
        encoded: Encoded = self.encoder(source, source_lengths)
        copying = self.decoder.copying
        return encoded if copying is None else copying.extend(encoded, source)

    def attend(
        self, encoded: Encoded, target: Int[Tensor, "B T"]
    ) -> tuple[Float[Tensor, "B T V"], Float[Tensor, "B T S"]]:
        """The logits of `read`, and the attention weights, so that a loss can act on the attention.

        Available only if `decoder.steps_are_independent`.
        """
        return self.decoder.attend(shifted(target), self.decoder.start(encoded))

    def enumerate(
        self,
        source: Shaped[Tensor, "B S *rest"],
        source_lengths: Int[Tensor, " B"],
        target: Int[Tensor, "B T"],
    ) -> tuple[Float[Tensor, "B T S"], Float[Tensor, "B T S V"]]:
        """The probability of every source position at each step, and the logits if only that one is attended.

        Available only if `decoder.steps_are_independent`.
        """
        probability, logits, _ = self.decoder.enumerate(shifted(target), self.start(source, source_lengths))
        return probability, logits


class Seq2Seq(EncoderDecoder):
    """Recurrent encoder and attentive decoder (1409.0473; 1508.04025).

    Queries, keys and values all have `hidden_size`.

    Args:
        mechanism: the attention of the decoder.
        sizes: the vocabularies.
        options: see `Seq2SeqSpec`.

    Raises:
        LabError: a window, CTC head or copying is used with `memory=final`, which has no annotations; copying
            without common symbols; or `tag_input` without tags.
    """

    @options_of(Seq2SeqSpec)
    def __init__(self, mechanism: Mechanism, sizes: TransductionSizes, spec: Seq2SeqSpec) -> None:
        size, vocabulary = spec.hidden_size, sizes.target_vocabulary
        decoder = MonotonicDecoder if isinstance(mechanism.pooling(), Monotonic) else AttentiveDecoder
        encoder = RecurrentEncoder(sizes.source_vocabulary, spec, sizes.tags if spec.tag_input else 0)
        if spec.tag_input and not sizes.tags:
            raise LabError(
                "model.tag_input=true reads tags, but the sources have none: choose data=inflection"
            )
        if spec.copy and not any(sizes.copies):
            raise LabError(
                "model.copy=true, but no source symbol occurs in the targets: set model.copy=false"
            )
        copying = Copying(size, vocabulary, torch.tensor(sizes.copies)) if spec.copy else None
        super().__init__(
            encoder,
            decoder(mechanism, vocabulary, spec, copying),
            CTCHead(size, vocabulary, spec.ctc_frames, spec.dropout) if spec.ctc_frames else None,
        )
        if spec.memory == "final":
            self._check_final()

    def _check_final(self) -> None:
        """Raise LabError for options that need annotations."""
        if self.tagger is not None:
            raise LabError("model.memory=final has no annotations for CTC: set model.ctc_frames=0")
        if self.decoder.copying is not None:
            raise LabError("model.memory=final has no source symbols to copy: set model.copy=false")
        if not isinstance(self.decoder.attention.window, Global):
            raise LabError("model.memory=final leaves one position to attend to: choose window=global")
