"""A trained model in Python: the return value of `attention_lab.load` and `attention_lab.pretrained`."""

from collections.abc import Callable, Iterator, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from attention_lab.console_text import one_line
from attention_lab.data.file_warnings.unseen_symbols import Terms, unseen_symbols
from attention_lab.data.reading.codecs import (
    ClassificationCodec,
    Codec,
    ImageCodec,
    LabelledImageCodec,
    NodeCodec,
    RegressionCodec,
    TransductionCodec,
)
from attention_lab.errors import LabError
from attention_lab.inference.model_inputs import (
    input_lines,
    input_tokenizer,
    input_tokens,
    reads_columns,
    symbol_lists,
)
from attention_lab.inference.safetensors_files import SUFFIX, save
from attention_lab.tasks.errors.text_limit import GROWTH, MOST_TEXT, outputs_too_long
from attention_lab.tasks.observation import Observation
from attention_lab.tasks.sequence_generation import SequenceGeneration

BATCH = 256
"""Number of inputs in a batch of predictions; fewer with more than 8 beams or high images."""
OBSERVED = 32
"""Number of inputs in a batch of observations, whose weights are all in memory at once."""
MOST_OUTPUTS = 1000
"""The largest number of outputs for an input."""
_HYPOTHESES = 8 * BATCH  # in a batch, at most
_ROWS = 32 * BATCH  # of pixels in a batch of images, at most; a checkpoint chooses their height
_PIXELS = 1 << 22  # in a batch of labelled images, at most
_LOGITS = 1 << 26  # of a batch of inputs to a classifier, at most
_CHARACTERS = 256 * BATCH  # of a batch's longest symbols, at most: a checkpoint chooses its symbols


class Predictor(Protocol):
    """The task interface that a trained model uses to predict."""

    @property
    def model(self) -> nn.Module: ...  # noqa: D102
    @property
    def codec(self) -> Codec: ...  # noqa: D102

    def eval(self) -> Self:
        """Put the model into evaluation mode."""

    def answer(self, batch: Any) -> list[str]:
        """The model's output for each example, as text."""

    def observe(self, batch: Any) -> list[Observation]:
        """The examples of a batch with all attention weights."""


TaskT = TypeVar("TaskT", bound=Predictor)
OutputT = TypeVar("OutputT", str, list[tuple[str, float]])


class TrainedModel(Generic[TaskT]):
    """A trained model with its preprocessing, returned by `attention_lab.load` and `pretrained`.

    Attributes:
        model: the network, in evaluation mode.
        codec: converts text to tensors and back.
        task: predicts with both: a LightningModule, or a `SequencePredictor` if the model came from a
            safetensors file.
        files: the checkpoints, or the safetensors file.
        score: the monitored metric and its value when the checkpoint was saved; empty if unknown.
    """

    def __init__(self, task: TaskT, files: Sequence[Path] = (), score: str = "") -> None:
        self.task: TaskT = task.eval()
        self.files, self.score = tuple(files), score
        self.model = task.model
        self.codec: Codec = task.codec

    @property
    def reads_columns(self) -> bool:
        """Whether an input has columns separated by tabs: `lemma<TAB>tags`."""
        return reads_columns(self.codec)

    def __repr__(self) -> str:
        """The class and size of the model, its inputs and outputs, its score, and its files."""
        count = sum(parameter.numel() for parameter in self.model.parameters())
        lines = {
            "model": f"{type(self.model).__name__}, {count:,} parameters",
            "task": type(self.task).__name__,
            **symbol_lists(self.codec),
            "score": self.score,
            "file": ", ".join(map(str, self.files)),
        }
        width = max(map(len, lines))
        shown = (f"  {name:<{width}}  {one_line(text)}" for name, text in lines.items() if text)
        return "\n".join(["TrainedModel", *shown])

    def predict(self, lines: Sequence[Any]) -> list[str]:
        """The model's output for each input, as text.

        Args:
            lines: the inputs: `["attention"]`. If the model reads numbers, an input may also be an array: a
                series [L, d], or [L] if it has a single variable; a sequence of vectors [L, d]; or a row [d]
                of a table. A classifier of images takes their paths, also as `Path`. A single string or array
                is rejected.

        Raises:
            LabError: `lines` is not a list of such inputs, the model cannot read one of them, or the outputs
                are very much longer than `lines`.
        """
        lines = input_lines(self.codec, lines, "predict")
        return self._outputs(lines, self.task.answer)

    def predict_n_best(self, lines: Sequence[Any], n: int = 5) -> list[list[tuple[str, float]]]:
        """The n best outputs for each input, or fewer, with scores; for `lines` see `predict`.

        A score is the logarithm of the output's probability; for sequences, it is divided by the length
        penalty. With `task.ctc_rescoring`, see `decoding.rescoring`. Models of both directions take the
        weighted mean of their scores.

        Raises:
            LabError: it is not a classifier or a sequence-to-sequence model, n is not a whole number from 1
                to 1000, or an input cannot be read.
        """
        lines = input_lines(self.codec, lines, "predict_n_best")
        answers = getattr(self.task, "n_best_answers", None)
        if answers is None:
            raise LabError(
                "several outputs for an input need a classifier or a sequence-to-sequence model, not "
                f"{type(self.task).__name__}"
            )
        given: object = n
        if not isinstance(given, Integral) or not 1 <= n <= MOST_OUTPUTS:
            raise LabError(f"predict_n_best: n must be a whole number from 1 to {MOST_OUTPUTS}, got {n!r}")
        return self._outputs(lines, lambda batch: answers(batch, n), n)

    def predict_probabilities(self, lines: Sequence[Any]) -> Tensor:
        """A classifier's probability of each label for each input; for `lines` see `predict`.

        Returns:
            p(label | input) [N, C] in float64, in the order of `codec.labels`; [N, A, C] if the model gives A
            labels per input. An ensemble gives the mean over its models.

        Raises:
            LabError: it is not a classifier, or an input cannot be read.
        """
        lines = input_lines(self.codec, lines, "predict_probabilities")
        probabilities = getattr(self.task, "probabilities", None)
        if probabilities is None or not isinstance(self.codec, ClassificationCodec | NodeCodec):
            hint = "; for scores, use predict_n_best" if hasattr(self.task, "n_best_answers") else ""
            kind = type(self.task).__name__
            raise LabError(f"predict_probabilities needs a classifier, not {kind}{hint}")
        answers = self.codec.answers if isinstance(self.codec, ClassificationCodec) else 1
        none = torch.zeros(0, *[answers] * (answers > 1), len(self.codec.labels), dtype=torch.float64)
        batches = self._batches(self.codec, lines)
        return torch.cat([none, *(probabilities(batch).cpu() for batch in batches)])

    def predict_values(self, lines: Sequence[Any]) -> Tensor:
        """A regression's prediction for each input as a number; for `lines` see `predict`.

        Returns:
            The predictions [N] in float64, in the target's units.

        Raises:
            LabError: it is not a regression, or an input cannot be read.
        """
        lines = input_lines(self.codec, lines, "predict_values")
        values = getattr(self.task, "values", None)
        if values is None:
            raise LabError(f"predict_values needs a regression, not {type(self.task).__name__}")
        batches = self._batches(self.codec, lines)
        none = torch.zeros(0, dtype=torch.float64)
        return torch.cat([none, *(values(batch).cpu() for batch in batches)])

    def _outputs(
        self, lines: Sequence[str], answer: Callable[[Any], list[OutputT]], n: int = 1
    ) -> list[OutputT]:
        """The results of `answer` for all batches, n per input. Raises LabError if they are too long."""
        left, found = MOST_TEXT + GROWTH * n * sum(map(len, lines)), []
        for batch in self._batches(self.codec, lines, n):
            outputs = answer(batch)
            for one in outputs:
                left -= len(one) if isinstance(one, str) else sum(len(text) for text, _ in one)
            if left < 0:
                raise outputs_too_long()
            found += outputs
        return found

    def _batches(self, codec: Codec, lines: Sequence[str], n: int = 1, most: int = BATCH) -> Iterator[Any]:
        """The inputs in batches of limited memory, at most `most` inputs each, for n outputs of each."""
        task: object = self.task
        beams = max(n, task.beam_size) if isinstance(task, SequenceGeneration) else 1
        if isinstance(codec, ImageCodec):
            most = min(most, _ROWS // codec.height)
        if isinstance(codec, LabelledImageCodec):
            most = min(most, _PIXELS // codec.image_size**2)
        if isinstance(codec, ClassificationCodec):
            most = min(most, _LOGITS // max(codec.answers * len(codec.labels), 1))
        if isinstance(codec, ImageCodec | TransductionCodec):
            longest = max(map(len, codec.target.vocabulary.symbols), default=0)
            most = min(most, _CHARACTERS // max(longest, 1))
        size = max(1, min(most, _HYPOTHESES // beams))
        starts = range(0, len(lines), size)
        return (self._moved(codec.encode(lines[start : start + size], start + 1)) for start in starts)

    def _moved(self, batch: Any) -> Any:
        """A batch on the device of the model, which may have been moved to a GPU since it was loaded."""
        parameter = next(self.model.parameters(), None)
        if parameter is None or parameter.device.type == "cpu":
            return batch
        return tree_map_only(Tensor, lambda x: x.to(parameter.device), batch)

    def unseen_symbols(self, lines: Sequence[str], source: str = "", unit: str = "input") -> str:
        """One line that names the symbols in `lines` that never occur in training; empty if there are none.

        The model reads all of them as the same unknown symbol, or unknown tag.

        Args:
            lines: the inputs; empty ones have no symbols.
            source: the file that the inputs are from, if any.
            unit: what one input is called.

        Raises:
            LabError: an input that is not empty cannot be read.
        """
        lines = input_lines(self.codec, lines, "unseen_symbols")
        tokenizer = input_tokenizer(self.codec)
        if tokenizer is None:
            return ""
        sequences = (input_tokens(tokenizer, line, number) for number, line in enumerate(lines, start=1))
        terms = Terms(examples=f"{unit}s")
        return unseen_symbols(sequences, tokenizer.vocabulary, source or "the inputs", terms, unit)

    def observe(self, lines: Sequence[Any]) -> list[Observation]:
        """The outputs and the weights of every attention that produced them; for `lines` see `predict`."""
        lines = input_lines(self.codec, lines, "observe")
        if isinstance(self.codec, RegressionCodec | NodeCodec):  # all inputs are one observation
            return self.task.observe(self._moved(self.codec.encode(lines))) if lines else []
        batches = self._batches(self.codec, lines, most=OBSERVED)
        return [observation for batch in batches for observation in self.task.observe(batch)]

    def export(self, path: str | Path) -> list[Path]:
        """Write the model to files for use elsewhere.

        As `x.pt2` or `x.onnx`, the files are graphs that run without this package. They are compared with the
        model before they are accepted. A classifier, a language model or a kernel regression is one graph; a
        sequence-to-sequence model is two, the encoder and one step of the decoder, `x.encoder.pt2` and
        `x.step.pt2`. `x.json` next to them describes the inputs and outputs, and which symbols the numbers
        stand for.

        As `x.safetensors`, the file has the weights in float16, and `x.json` next to it the configuration.
        These are the files that `attention_lab.pretrained` reads. Only for sequence-to-sequence models.
        Give it another name than the graphs, whose `x.json` it would replace.

        Args:
            path: `x.pt2` for `torch.export`, `x.onnx` for ONNX (`pip install -e '.[export]'`), or
                `x.safetensors`.

        Returns:
            The files written.

        Raises:
            LabError: the model cannot be exported, a package is missing, or the graph gives other results.
        """
        path = Path(path)
        if path.suffix == SUFFIX:
            return save(self.task, path, self.score)
        from attention_lab.inference.exporting import export  # slow to import, and seldom needed

        return export(self.model, self.codec, path)
