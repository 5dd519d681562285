"""Classification of sequences, and the base class of all classification tasks."""

from abc import abstractmethod
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchmetrics.classification import MulticlassAccuracy

from attention_lab.attention import recording
from attention_lab.data.reading.batches import ClassificationBatch
from attention_lab.data.reading.codecs import ClassificationCodec, LabelledImageCodec, NodeCodec
from attention_lab.data.reading.datamodule import DataModule
from attention_lab.errors import LabError
from attention_lab.models import ClassifierEnsemble, SequenceClassifier
from attention_lab.tasks.errors.error_analysis import by_row
from attention_lab.tasks.errors.label_errors import ClassifiedExample, accuracy_interval, write_label_errors
from attention_lab.tasks.errors.scored_examples import gather_examples
from attention_lab.tasks.errors.text_limit import TextLimit
from attention_lab.tasks.model_checks import checked_logits
from attention_lab.tasks.observation import Observation, QueriesAndKeys, make_observation
from attention_lab.tasks.task import SplitName, Task, at_least_float32, check_label_smoothing
from attention_lab.tensorboard_plugin.image_patches import over_image
from attention_lab.text_tables import ConsoleTable

LONGEST = 200
"""Maximum number of tokens of an example in the tables of a test."""


class LabelPrediction(Task):
    """Trains with cross entropy, evaluates accuracy.

    Args:
        model: the classifier.
        codec: converts text to tensors and back.
        label_smoothing: share of the target spread over all classes in training (1512.00567).
        n_best: number of labels for each input in prediction, with scores.
        options: see `Task`.
    """

    codec: ClassificationCodec | NodeCodec
    headlines = ("test/accuracy",)

    def __init__(
        self,
        model: nn.Module,
        codec: ClassificationCodec | NodeCodec,
        *,
        label_smoothing: float = 0.0,
        n_best: int = 1,
        **options: Any,
    ) -> None:
        super().__init__(model, codec, **options)
        check_label_smoothing(label_smoothing)
        self.label_smoothing, self.n_best = label_smoothing, n_best
        self.accuracy = nn.ModuleDict(
            {
                split: MulticlassAccuracy(len(codec.labels), average="micro")
                for split in ("validation", "test")
            }
        )

        self.scored: list[ClassifiedExample] = []
        self._batches: list[list[ClassifiedExample]] = []
        self._limit = TextLimit()

    @abstractmethod
    def logits(self, batch: Any) -> Tensor:
        """The logits [B, C] of each example, or [B, A, C] of its last positions."""

    @abstractmethod
    def source_texts(self, batch: Any) -> list[str]:
        """The text of each example [B], empty if it has none."""

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        """Cross entropy of the labels."""
        loss = label_cross_entropy(self._checked_logits(batch), batch.labels, self.label_smoothing)
        self.log_training_loss(loss, len(batch.labels))
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        """Loss and accuracy."""
        self._evaluate(batch, "validation")

    def test_step(self, batch: Any, batch_idx: int) -> None:
        """Loss and accuracy."""
        chosen = self._evaluate(batch, "test").argmax(-1)
        for ids in (chosen, batch.labels):
            self._limit.count(self.codec.labels, ids)
        classes = chosen.view(len(batch.labels), -1).tolist()
        rows = zip(
            self.source_texts(batch), classes, batch.labels.view(len(classes), -1).tolist(), strict=True
        )
        self._batches.append([ClassifiedExample(*fields) for fields in rows])

    def on_test_epoch_end(self) -> None:
        """Log the interval of the accuracy."""
        self.scored, self._batches, self._limit = gather_examples(self._batches), [], TextLimit()
        ends = accuracy_interval(self.scored)
        self.log_dict({f"test/{name}": value for name, value in ends.items()}, sync_dist=True)

    def write_artifacts(self, folder: Path, data: DataModule, pictures: int) -> list[ConsoleTable]:
        """Write heatmaps, `predictions.tsv`, `confusions.tsv` and `errors.md`."""
        tables = super().write_artifacts(folder, data, pictures)
        commonest = write_label_errors(by_row(self.scored, data.splits.test), self.codec.decode, folder)
        return [*tables, commonest] if commonest.rows else tables

    def _checked_logits(self, batch: Any) -> Tensor:
        """The logits. Raises LabError if the model, which may be user-defined, returns anything else."""
        expected = [*batch.labels.shape, len(self.codec.labels)]
        return checked_logits(self.model, self.logits(batch), expected, "example and class")

    def _evaluate(self, batch: Any, split: SplitName) -> Tensor:
        """Log loss and accuracy; returns the logits."""
        logits = self._checked_logits(batch)
        loss = label_cross_entropy(logits, batch.labels)
        metric = self.accuracy[split]
        metric.update(logits.flatten(0, -2), batch.labels.flatten())  # type: ignore[operator]
        self.log_mean(f"{split}/loss", loss, len(batch.labels))
        self.log(f"{split}/accuracy", metric, prog_bar=split == "validation")  # type: ignore[arg-type]
        return logits

    @torch.no_grad()
    def answer(self, batch: Any) -> list[str]:
        """The most likely label of each example, or of each of its last positions.

        Raises:
            LabError: the labels are too long to be made into text.
        """
        classes = self.logits(batch).argmax(-1)
        TextLimit().count(self.codec.labels, classes)
        return [self.codec.decode(label) for label in classes.tolist()]

    @torch.no_grad()
    def probabilities(self, batch: Any) -> Tensor:
        """p(label | example) [B, C] in float64, or [B, A, C] for A labels per example."""
        return self.logits(batch).double().softmax(-1)

    @torch.no_grad()
    def n_best_answers(self, batch: Any, n: int) -> list[list[tuple[str, float]]]:
        """The n most likely labels of each example, or all of them, each with log p(label | example).

        Raises:
            LabError: the model answers at several positions, or the labels are too long to be made into text.
        """
        logits = self.logits(batch)
        if logits.dim() > 2:
            raise LabError(
                f"the model gives {logits.shape[1]} labels per input: n-best outputs need exactly one"
            )
        scores, classes = logits.double().log_softmax(-1).topk(min(n, logits.shape[-1]))
        TextLimit().count(self.codec.labels, classes)
        names = [[self.codec.decode(label) for label in row] for row in classes.tolist()]
        return [list(zip(*row, strict=True)) for row in zip(names, scores.tolist(), strict=True)]


class Classification(LabelPrediction):
    """Classification of sequences.

    Args:
        model: the classifier, from inputs and lengths to logits. If it has no method `position_labels` like
            that of `SequenceClassifier`, it is assumed to attend to the tokens themselves.
        codec: converts text to tensors and back.
        options: see `LabelPrediction`.
    """

    model: SequenceClassifier | ClassifierEnsemble
    codec: ClassificationCodec

    def logits(self, batch: ClassificationBatch) -> Tensor:
        """See `LabelPrediction`."""
        logits: Tensor = self.model(batch.inputs, batch.lengths)
        return logits

    def source_texts(self, batch: ClassificationBatch) -> list[str]:
        """The text, or for an example without one its first `LONGEST` tokens; empty for vectors."""
        if batch.texts or self.codec.tokenizer is None:
            return list(batch.texts) or [""] * len(batch.labels)
        texts = []
        for ids, length in zip(batch.inputs.cpu(), batch.lengths.tolist(), strict=True):
            text = self.codec.input_text(ids, min(length, LONGEST))
            texts.append(text if length <= LONGEST else f"{text} … ({length:,} tokens)")
        return texts

    @torch.no_grad()
    def observe(self, batch: ClassificationBatch) -> list[Observation]:
        """Each example with its predicted label and the weights of every layer and head."""
        with recording(self.model) as weights:
            classes = self.logits(batch).argmax(-1).tolist()
        result = []
        for row, (inputs, length, label) in enumerate(
            zip(batch.inputs.cpu(), batch.lengths.tolist(), batch.labels.tolist(), strict=True)
        ):
            tokens = self.codec.token_labels(inputs, length)
            longest = batch.inputs.shape[1]
            found = make_observation(
                weights,
                row,
                {name: self._queries_and_keys(name, weights[name], tokens, longest) for name in weights},
                input=batch.texts[row] if batch.texts else self.codec.input_text(inputs, length),
                output=self.codec.decode(classes[row]),
                expected=self.codec.decode(label) if (batch.labels[row] >= 0).all() else "",
            )
            result.append(self._over_image(found, inputs))
        return result

    def _over_image(self, observation: Observation, inputs: Tensor) -> Observation:
        """The observation with its attention laid over the image, if the inputs are patches of one."""
        if not isinstance(self.codec, LabelledImageCodec):
            return observation
        pixels, side = self.codec.ink(inputs), self.codec.patch_size
        laid = (over_image(one, pixels, side) for one in observation.records)
        return observation._replace(records=tuple(laid))

    def _member(self, module: str) -> tuple[nn.Module, str]:
        """The model that has an attention, such as a member of an ensemble, and its name in that model."""
        if not isinstance(self.model, ClassifierEnsemble):
            return self.model, module
        member, _, name = module.partition(".")
        return self.model.get_submodule(member), name

    def _queries_and_keys(
        self, module: str, weights: Tensor, tokens: list[str], longest: int
    ) -> QueriesAndKeys:
        """Labels of the rows and columns of an attention: positions, or numbers if their count differs."""
        model, name = self._member(module)
        # The tokens, and any positions that the model adds.
        positions: list[str] = getattr(model, "position_labels", list)(tokens)
        if name.startswith("readout."):
            return QueriesAndKeys(["[readout]"], positions)
        padded = longest + len(positions) - len(tokens)
        queries, keys = (
            positions if size == padded else [f"{side} {number}" for number in range(1, size + 1)]
            for side, size in zip(("query", "key"), weights.shape[-2:], strict=True)
        )
        return QueriesAndKeys(queries, keys)


def label_cross_entropy(logits: Tensor, labels: Tensor, smoothing: float = 0.0) -> Tensor:
    """The mean over all labels [B] or [B, A]; the last dimension of the logits is the classes."""
    logits = at_least_float32(logits.flatten(0, -2))
    return F.cross_entropy(logits, labels.flatten(), label_smoothing=smoothing)
