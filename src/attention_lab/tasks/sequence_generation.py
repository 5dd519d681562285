"""Generate sequences with a trained model: the best output, the n best, and the attention of each."""

from collections.abc import Mapping
from typing import Any, Self, cast

import torch
from torch import Tensor

from attention_lab.attention import recording
from attention_lab.data.reading.batches import TransductionBatch
from attention_lab.data.reading.codecs import ImageCodec, TransductionCodec
from attention_lab.errors import LabError
from attention_lab.models.decoding.beam_search import Decodable, greedy, n_best_search, trimmed
from attention_lab.models.decoding.rescoring import check_has_ctc_head, rescore
from attention_lab.models.decoding.two_way_search import two_way_search
from attention_lab.models.ensemble import Ensemble
from attention_lab.models.transduction import TransductionModel
from attention_lab.models.two_way import TwoWayEnsemble
from attention_lab.special_symbols import BOS
from attention_lab.tasks.observation import Observation, QueriesAndKeys, make_observation
from attention_lab.tensorboard_plugin.arrays import make_ink
from attention_lab.tensorboard_plugin.record import Ink

MOST_BEAMS = 1000
"""Maximum number of hypotheses for each source; each takes as long as a greedy output."""
MOST_SEQUENCES = 1 << 18
"""Maximum number of hypotheses or samples of a batch, which are all in memory at once."""
MOST_WEIGHTS = 1 << 22
"""Maximum number of weights recorded for a head if the source is an image: such records have no tiles."""
MOST_WEIGHTS_OF_TEXT = 1 << 26
"""The same for a text: 8,192 queries and keys."""
STEEPEST = 10.0
"""Maximum absolute length penalty; 1 is common, and hundreds overflow."""


class SequenceGeneration:
    """Decoding for any class with a model and a codec; needs no Lightning.

    Attributes:
        model: the sequence-to-sequence model, or several as an `Ensemble`.
        codec: converts text to tensors and back.
        beam_size: number of beams; 1 is greedy.
        length_penalty: alpha of 1609.08144, eq. 14; 0 for no penalty.
        ctc_rescoring: weight of the CTC score of the beam's outputs, see `rescore`; 0 for no rescoring.
        recipe: plain values from which the model and preprocessing can be rebuilt.
    """

    model: TransductionModel | Ensemble
    codec: TransductionCodec | ImageCodec
    beam_size: int
    length_penalty: float
    ctc_rescoring: float
    recipe: dict[str, Any]

    def set_search(self, beam_size: int, length_penalty: float, ctc_rescoring: float) -> None:
        """Set the options of the search. Raises LabError if one of them is out of range."""
        check_beams("task.beam_size", beam_size)
        if not abs(length_penalty) <= STEEPEST:
            raise LabError(
                f"task.length_penalty must be from {-STEEPEST:g} to {STEEPEST:g}, got {length_penalty}"
            )
        if not 0 <= ctc_rescoring <= 1:
            raise LabError(f"task.ctc_rescoring must be from 0 to 1, got {ctc_rescoring}")
        self.beam_size, self.length_penalty = beam_size, length_penalty
        self.ctc_rescoring = ctc_rescoring

    def decode(self, batch: TransductionBatch, beam_size: int | None = None) -> Tensor:
        """Output ids `[B, T]`: greedy for a single beam, otherwise the best hypothesis of a beam search.

        A `TwoWayEnsemble` always searches, with one beam or more in each direction.
        """
        beam_size = self.beam_size if beam_size is None else beam_size
        if beam_size == 1 and not isinstance(self.model, TwoWayEnsemble):
            model = cast(Decodable[Any], self.model)
            return greedy(model, batch.source, batch.source_lengths, self._limits(batch))
        tokens, _ = self._search(batch, beam_size, 1)
        return trimmed(tokens[:, 0])

    @torch.no_grad()
    def answer(self, batch: TransductionBatch) -> list[str]:
        """The decoded output of each example."""
        rows = zip(self.decode(batch).cpu(), batch.every_unseen, strict=True)
        return [self.codec.decode(ids, one.copyable) for ids, one in rows]

    @torch.no_grad()
    def n_best_answers(self, batch: TransductionBatch, n: int) -> list[list[tuple[str, float]]]:
        """The n best outputs of each example, or fewer, each with its score.

        The score is that of `n_best_search`, `two_way_search` or `rescore`. The number of beams is
        `beam_size`, or n if n is larger.
        """
        tokens, scores = self._search(batch, max(n, self.beam_size), n)
        return [
            [
                (self.codec.decode(ids, one.copyable), score)
                for ids, score in zip(outputs, found, strict=True)
                if score > -torch.inf
            ]
            for outputs, found, one in zip(tokens.cpu(), scores.tolist(), batch.every_unseen, strict=True)
        ]

    @torch.no_grad()
    def observe(self, batch: TransductionBatch) -> list[Observation]:
        """Each example with its decoded output and the weights of every attention that produced it.

        For images with very many cells, and for very long texts, these are the weights of the first symbols
        of the output.
        """
        output = self.decode(batch)
        texts = self.source_texts(batch)
        shown_output = output[:, : self._most_symbols(batch)]
        with recording(self.model) as weights:
            self.model(batch.source, batch.source_lengths, shown_output)
        result = []
        lengths = batch.source_lengths.tolist()
        for row, (ids, padded) in enumerate(zip(output.cpu(), batch.source.cpu(), strict=True)):
            source = padded[..., : lengths[row]]
            target, unseen = batch.target[row].cpu(), batch.every_unseen[row]
            queries = self.codec.target.labels(ids, unseen.copyable)[: shown_output.shape[1]]
            keys = self.codec.source_labels(source, unseen.source)
            gold = batch.alignment[row, : len(queries)].cpu()
            # The gold alignment belongs to the gold output, and does not apply to a different one.
            aligned = bool((gold >= 0).any()) and torch.equal(ids[: len(queries)], target[: len(queries)])
            shown = QueriesAndKeys(queries, keys, gold if aligned else None, self._picture(source))
            result.append(
                make_observation(
                    weights,
                    row,
                    {name: self._queries_and_keys(name, shown) for name in weights},
                    input=texts[row],
                    output=self.codec.decode(ids, unseen.copyable),
                    expected=self.codec.decode(target, unseen.target),
                )
            )
        return result

    def _most_symbols(self, batch: TransductionBatch) -> int:
        """The number of symbols of each output whose weights are observed."""
        size = batch.source[0].numel()
        if isinstance(self.codec, ImageCodec):
            return max(1, MOST_WEIGHTS // (size // self.codec.cell**2))
        return max(1, MOST_WEIGHTS_OF_TEXT // size)

    def _search(self, batch: TransductionBatch, beam_size: int, n: int) -> tuple[Tensor, Tensor]:
        """The n best outputs `[B, n, T]`, best first, and their scores `[B, n]`."""
        check_sequences("task.beam_size", beam_size, len(batch.source))
        sources, limits = (batch.source, batch.source_lengths), self._limits(batch)
        model, alpha = cast(Any, self.model), self.length_penalty
        if isinstance(model, TwoWayEnsemble):
            tokens, scores = two_way_search(model, *sources, limits, beam_size, alpha)
        else:
            found = beam_size if self.ctc_rescoring else n
            tokens, scores = n_best_search(model, *sources, limits, beam_size, found, alpha)
        if self.ctc_rescoring:
            tokens, scores = rescore(model, *sources, tokens, scores, self.ctc_rescoring, alpha)
        return tokens[:, :n], scores[:, :n]

    def _limits(self, batch: TransductionBatch) -> Tensor:
        """Maximum length of each output: three symbols for each symbol of the source, plus ten."""
        limits: Tensor = (3 * batch.source_lengths + 10).clamp_max(self.model.longest)
        return limits

    def _queries_and_keys(self, module: str, shown: QueriesAndKeys) -> QueriesAndKeys:
        """The rows and columns of an attention: target and source, except in a Transformer's self-attention.

        In the decoder's self-attention, rows are the generated symbols and columns the symbols read before.
        """
        parts = module.split(".")
        if "encoder" in parts:
            return QueriesAndKeys(shown.keys, shown.keys)
        if "self" in parts:
            begin = self.codec.target.vocabulary.symbol(BOS)
            return QueriesAndKeys(shown.queries, [begin, *shown.queries[:-1]])
        return shown

    def source_texts(self, batch: TransductionBatch) -> list[str]:
        """The text of each source."""
        rows = zip(batch.source.cpu(), batch.source_lengths.tolist(), batch.every_unseen, strict=True)
        return [self.codec.source_text(source[..., :length], one.source) for source, length, one in rows]

    def _picture(self, source: Tensor) -> Ink | None:
        return make_ink(source, self.codec.cell) if isinstance(self.codec, ImageCodec) else None


class SequencePredictor(SequenceGeneration):
    """A trained model for prediction only: a `Transduction` without training and testing.

    Args:
        model: the sequence-to-sequence model.
        codec: converts text to tensors and back.
        beam_size: number of beams; 1 is greedy.
        length_penalty: alpha of the length penalty.
        ctc_rescoring: weight of the CTC score.
        recipe: plain values from which the model and preprocessing can be rebuilt.
    """

    def __init__(
        self,
        model: TransductionModel,
        codec: TransductionCodec | ImageCodec,
        *,
        beam_size: int = 1,
        length_penalty: float = 0.0,
        ctc_rescoring: float = 0.0,
        recipe: Mapping[str, Any] | None = None,
    ) -> None:
        self.set_search(beam_size, length_penalty, ctc_rescoring)
        if ctc_rescoring:
            check_has_ctc_head(model)
        self.model, self.codec = model, codec
        self.recipe = dict(recipe or {})

    def eval(self) -> Self:
        """Put the model into evaluation mode."""
        self.model.eval()
        return self


def check_beams(option: str, number: int) -> None:
    """Raise LabError if a number of beams or outputs is too small or too large."""
    if not 1 <= number <= MOST_BEAMS:
        raise LabError(f"{option} must be from 1 to {MOST_BEAMS}, got {number}")


def check_sequences(option: str, number: int, batch: int) -> None:
    """Raise LabError if the hypotheses or samples of a batch are too many to be in memory at once."""
    if number * batch > MOST_SEQUENCES:
        raise LabError(
            f"{option}={number} makes {number * batch:,} sequences of a batch of {batch:,}, more than "
            f"{MOST_SEQUENCES:,}: choose fewer, or a smaller data.batch_size"
        )
