"""Sequence to sequence: teacher forcing in training, decoding in evaluation."""

from pathlib import Path
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attention_lab.attention import Exact, Hard, Recording, recording
from attention_lab.data.reading.batches import TransductionBatch
from attention_lab.data.reading.codecs import ImageCodec, TransductionCodec
from attention_lab.data.reading.datamodule import DataModule
from attention_lab.data.reading.vocabulary import SPECIALS
from attention_lab.distributed import any_process
from attention_lab.files.run_files import HEATMAPS
from attention_lab.metrics import AlignmentMeasures, Nearest, SequenceErrorRate, TokenErrorRate, nearest
from attention_lab.metrics.text_scores import check_sacrebleu, text_scores
from attention_lab.models.decoding.rescoring import check_has_ctc_head
from attention_lab.models.ensemble import Ensemble, alignment_names, alignment_weights
from attention_lab.models.seq2seq import EncoderDecoder
from attention_lab.models.transduction import TransductionModel
from attention_lab.special_symbols import PAD
from attention_lab.tasks.errors.error_analysis import write_error_analysis
from attention_lab.tasks.errors.scored_examples import (
    ScoredExample,
    comparable_ids,
    decoded_texts,
    error_rate_intervals,
    gather_examples,
    score_examples,
)
from attention_lab.tasks.errors.text_limit import TextLimit
from attention_lab.tasks.losses.guidance import guidance_loss
from attention_lab.tasks.losses.latent import check_enumeration, enumerated_loss, monte_carlo_loss
from attention_lab.tasks.losses.loss_weights import check_loss_weights
from attention_lab.tasks.losses.r_drop import divergence, duplicate
from attention_lab.tasks.model_checks import SYMBOLS, check_transduction_model, checked_logits
from attention_lab.tasks.pictures import save_pictures
from attention_lab.tasks.sequence_generation import SequenceGeneration, check_beams
from attention_lab.tasks.task import SplitName, Task, at_least_float32, check_label_smoothing
from attention_lab.text_tables import ConsoleTable

ERRORS = {"sequence_error_rate": SequenceErrorRate, "token_error_rate": TokenErrorRate}


class Transduction(SequenceGeneration, Task):
    """Trains with cross entropy on the next symbol; evaluates the sequences that the model decodes by itself.

    `sequence_error_rate` is the fraction of outputs that equal none of the references (for pronunciations,
    the word error rate). `token_error_rate` is the Levenshtein distance to the nearest reference divided by
    the length of that reference (the phoneme error rate). Tests also log the ends of their 95% intervals. If
    the data has a gold alignment, `AlignmentMeasures` compare the weights with it (under teacher forcing, for
    the mean over heads and each head). `window_error` is the mean distance between the gold positions and
    those that local-p predicts.

    Args:
        model: the sequence-to-sequence model, or several as an `Ensemble`, which can only be tested. The loss
            and the attention of a `TwoWayEnsemble` are those of its left-to-right models.
        codec: converts text to tensors and back.
        label_smoothing: share of the target spread over all symbols in training (1512.00567).
        r_drop: alpha of 2106.14448, eq. 4: the weight of the divergence between two passes under different
            dropout (the loss is half that of the paper, because it is a mean over both passes). 0 for a
            single pass, at about half the cost.
        guidance: weight of the loss that teaches the attention the alignments of the training data.
        ctc: weight of the loss of the model's `CTCHead`; above 0 if and only if it has one.
        beam_size: number of beams in testing and prediction; 1 is greedy. Validation is always greedy.
        length_penalty: alpha of 1609.08144, eq. 14; 0 for no penalty.
        ctc_rescoring: weight, from 0 to 1, of the CTC score when the outputs of a beam search are ranked, see
            `decoding.rescoring`; needs a model with a `CTCHead`, and more than one beam.
        n_best: number of outputs for each input in prediction, with scores; the beam is at least this wide.
        text_metrics: also log BLEU and chrF of the texts, see `metrics.text_scores`.
        options: see `Task`.

    Attributes:
        scored: the scored examples of the last test, from all processes, in the order of testing.
    """

    model: TransductionModel | Ensemble
    codec: TransductionCodec | ImageCodec
    recipe: dict[str, Any]
    headlines = ("test/token_error_rate", "test/sequence_error_rate")

    def __init__(
        self,
        model: TransductionModel | Ensemble,
        codec: TransductionCodec | ImageCodec,
        *,
        label_smoothing: float = 0.0,
        r_drop: float = 0.0,
        ctc: float = 0.0,
        guidance: float = 0.0,
        beam_size: int = 1,
        length_penalty: float = 0.0,
        ctc_rescoring: float = 0.0,
        n_best: int = 1,
        text_metrics: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(model, codec, **options)
        self.set_search(beam_size, length_penalty, ctc_rescoring)
        check_beams("task.n_best", n_best)
        if text_metrics:
            check_sacrebleu()
        check_label_smoothing(label_smoothing)
        if isinstance(model, EncoderDecoder):
            check_enumeration(model)
        check_loss_weights(model, r_drop=r_drop, ctc=ctc, guidance=guidance)
        self.label_smoothing = label_smoothing
        self.r_drop, self.ctc, self.guidance = r_drop, ctc, guidance
        self.n_best, self.text_metrics = n_best, text_metrics
        self.errors = nn.ModuleDict(
            {
                f"{split}_{name}": metric()
                for split in ("validation", "test")
                for name, metric in ERRORS.items()
            }
        )
        self.alignments = nn.ModuleDict({split: AlignmentMeasures() for split in ("validation", "test")})
        self.scored: list[ScoredExample] = []
        self._batches: list[list[ScoredExample]] = []
        self._limit = TextLimit()
        self._texts: list[list[tuple[str, list[str]]]] = []  # with text_metrics: outputs and references

    def setup(self, stage: str) -> None:
        """Check what depends on the complete model: in an ensemble, one member with a CTC head is enough."""
        check_transduction_model(self.model)
        if self.ctc_rescoring:
            check_has_ctc_head(self.model)

    def training_step(self, batch: TransductionBatch, batch_idx: int) -> Tensor:
        """Cross entropy of the target under teacher forcing; for hard attention see `losses.latent`."""
        model = self.model
        if isinstance(model, EncoderDecoder) and isinstance(model.latent, Hard):
            loss, reported = monte_carlo_loss(model, batch, model.latent, self._log_likelihood)
        elif isinstance(model, EncoderDecoder) and isinstance(model.latent, Exact):
            loss = reported = enumerated_loss(model, batch, model.latent, self._log_likelihood)
        else:
            loss, reported = self._supervised_loss(batch)
        self.log_training_loss(reported, len(batch.source))
        return loss

    def _supervised_loss(self, batch: TransductionBatch) -> tuple[Tensor, Tensor]:
        """The loss to minimise, and the decoder's cross entropy, which is part of it."""
        model = self.model
        assert not isinstance(model, Ensemble)
        batch = duplicate(batch) if self.r_drop else batch
        encoded = model.encode(batch.source, batch.source_lengths)
        if self.guidance:
            assert isinstance(model, EncoderDecoder)
            logits, weights = model.attend(encoded, batch.target)
        else:
            logits = self._checked(model.read(encoded, batch.target), batch)
        loss = reported = cross_entropy(logits, batch.target, self.label_smoothing)
        if self.r_drop:
            loss = loss + self.r_drop / 2 * divergence(logits, batch.target)
        if self.guidance:
            loss = loss + self.guidance * guidance_loss(weights, batch.alignment)
        if self.ctc and model.tagger is not None:
            loss = loss + self.ctc * model.tagger.loss(encoded.keys, encoded.mask, batch.target)
        return loss, reported

    def validation_step(self, batch: TransductionBatch, batch_idx: int) -> None:
        """Loss under teacher forcing, and error rates of greedy decoding."""
        self._evaluate(batch, "validation", beam_size=1)

    def test_step(self, batch: TransductionBatch, batch_idx: int) -> None:
        """Loss under teacher forcing, and error rates of decoding with `beam_size`."""
        outputs, found = self._evaluate(batch, "test", self.beam_size)
        self._batches.append(score_examples(self.source_texts(batch), outputs, batch, found))

    def write_artifacts(self, folder: Path, data: DataModule, pictures: int) -> list[ConsoleTable]:
        """Write heatmaps, including those of the worst outputs, `predictions.tsv` and `errors.md`."""
        tables = super().write_artifacts(folder, data, pictures)
        split = data.splits.test
        commonest, worst = write_error_analysis(self.scored, self.codec, split, folder, data.unseen.test)
        if pictures and worst:
            batch = cast(TransductionBatch, self.prepared(split[torch.tensor(worst[:pictures])]))
            self.eval()
            save_pictures(self.observe(batch), folder / HEATMAPS / "worst", self.pictures_format)
        return [*tables, commonest] if commonest.rows else tables

    def _log_likelihood(self, logits: Tensor, target: Tensor) -> Tensor:
        """`log p(y)` of each symbol, smoothed as in training."""
        logits = at_least_float32(logits.flatten(0, -2))
        losses = F.cross_entropy(
            logits, target.flatten(), reduction="none", label_smoothing=self.label_smoothing
        )
        return -losses.view(target.shape)

    def _evaluate(self, batch: TransductionBatch, split: SplitName, beam_size: int) -> tuple[Tensor, Nearest]:
        """Log loss and metrics; returns the decoded outputs and their nearest references."""
        names = alignment_names(self.model)
        # In all processes or none, because they sum what they measure together.
        aligned = bool(names) and any_process(bool((batch.alignment >= 0).any()), batch.alignment.device)
        if aligned:
            with recording(self.model, names=names) as weights:
                logits = self.model(batch.source, batch.source_lengths, batch.target)
            aligning = alignment_weights(self.model, weights)
            self.alignments[split].update(aligning, batch.alignment)  # type: ignore[operator]
        else:
            logits = self.model(batch.source, batch.source_lengths, batch.target)
        loss = cross_entropy(self._checked(logits, batch), batch.target)
        self.log_mean(f"{split}/loss", loss, int(batch.target_lengths.sum()))
        outputs = self.decode(batch, beam_size)
        found = nearest(*comparable_ids(outputs, batch, self.codec.target.vocabulary))
        for name in ERRORS:
            metric = self.errors[f"{split}_{name}"]
            metric.update(found)  # type: ignore[operator]
            self.log(f"{split}/{name}", metric, prog_bar=name == "token_error_rate")  # type: ignore[arg-type]
        if aligned:
            self._log_window_error(weights, batch.alignment, split)
        if split == "test" or self.text_metrics:
            self._count_text(batch, outputs)
        if self.text_metrics:
            self._texts.append(decoded_texts(self.codec.decode, outputs, batch))
        return outputs, found

    def _checked(self, logits: object, batch: TransductionBatch) -> Tensor:
        """The logits. Raises LabError if the model, which may be user-defined, returned anything else."""
        expected = [*batch.target.shape, len(self.codec.target.vocabulary)]
        return checked_logits(self.model, logits, expected, SYMBOLS)

    def _count_text(self, batch: TransductionBatch, outputs: Tensor) -> None:
        """Raise LabError if the examples so far would have too many characters as text."""
        if isinstance(self.codec, TransductionCodec):
            self._limit.count(self.codec.source.vocabulary.symbols, batch.source, len(SPECIALS))
        for ids in (outputs, batch.references):
            self._limit.count(self.codec.target.vocabulary.symbols, ids, len(SPECIALS))

    def _log_window_error(self, weights: Recording, alignment: Tensor, split: SplitName) -> None:
        """Log the distance between the positions that a window predicts (local-p) and the gold positions."""
        if isinstance(self.model, Ensemble) or self.model.alignment is None:  # each member has its own
            return
        centre = weights.centre(self.model.alignment)
        if centre is not None and alignment.dim() == 2:
            aligned = alignment >= 0
            errors = (centre - alignment.unsqueeze(1)).abs().mean(1)[aligned]
            mean = errors.sum() / max(len(errors), 1)
            self.log_mean(f"{split}/window_error", mean, len(errors))

    def on_validation_epoch_end(self) -> None:
        """Log how well the weights agree with the gold alignment."""
        self._log_epoch("validation")

    def on_test_epoch_end(self) -> None:
        """Log how well the weights agree with the gold alignment, and the intervals of the error rates."""
        self._log_epoch("test")
        self.scored, self._batches = gather_examples(self._batches), []
        ends = error_rate_intervals(self.scored)
        self.log_dict({f"test/{name}": value for name, value in ends.items()}, sync_dist=True)

    def _log_epoch(self, split: SplitName) -> None:
        self._limit = TextLimit()
        values = self.alignments[split].take()  # type: ignore[operator]
        if self.text_metrics:
            texts, self._texts = gather_examples(self._texts), []
            values |= text_scores([output for output, _ in texts], [references for _, references in texts])
        self.log_dict({f"{split}/{name}": value for name, value in values.items()}, sync_dist=True)


def cross_entropy(logits: Tensor, target: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """Mean cross entropy of `[B, T, V]` logits over the target symbols that are not padding."""
    logits = at_least_float32(logits.flatten(0, 1))
    return F.cross_entropy(logits, target.flatten(), ignore_index=PAD, label_smoothing=label_smoothing)
