"""A trained model in Python: what `attention_lab.load` returns."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from torch import Tensor

from attention_lab.data.reading.codecs import ClassificationCodec, Codec, TransductionCodec
from attention_lab.data.reading.language_codec import LanguageCodec
from attention_lab.data.reading.vocabulary import Tokenizer
from attention_lab.data.unseen_symbols import Terms, unseen_symbols
from attention_lab.errors import LabError
from attention_lab.tasks import Observation, Task, Transduction
from attention_lab.tasks.n_best import n_best_outputs
from attention_lab.untrusted.plain_files import one_line
from attention_lab.untrusted.training_state import is_number

BATCH = 256
"""Number of inputs in a batch of predictions."""
_SHOWN = 60
"""Most characters of an input that an error message repeats."""
_LISTED = 12  # symbols that `repr` lists


class TrainedModel:
    """A trained model with its preprocessing, as `attention_lab.load` gives it.

    Attributes:
        model: the network, in evaluation mode.
        codec: text to tensors and back.
        task: the LightningModule around both.
        files: the checkpoints.
        score: the monitored metric and its value when the checkpoint was saved; empty if it does not tell.
    """

    def __init__(self, task: Task, files: Sequence[Path] = (), score: str = "") -> None:
        self.task = task.eval()
        self.files, self.score = tuple(files), score
        self.model = task.model
        self.codec: Codec = task.codec

    def __repr__(self) -> str:
        """What it is, what it reads and writes, how good it was, and where it is from."""
        count = sum(parameter.numel() for parameter in self.model.parameters())
        lines = {
            "model": f"{type(self.model).__name__}, {count:,} parameters",
            "task": type(self.task).__name__,
            **_symbols(self.codec),
            "score": self.score,
            "file": ", ".join(map(str, self.files)),
        }
        width = max(map(len, lines))
        shown = (f"  {name:<{width}}  {one_line(text)}" for name, text in lines.items() if text)
        return "\n".join(["TrainedModel", *shown])

    def predict(self, lines: Sequence[str]) -> list[str]:
        """The model's output for each input, as text.

        Args:
            lines: the inputs: `["attention"]`. A single text is rejected: it would be read letter by letter.

        Raises:
            LabError: `lines` is not a list of texts, or the model cannot read one of them.
        """
        _check_texts(lines, "predict")
        batches = (self.codec.encode(lines[n : n + BATCH], n + 1) for n in range(0, len(lines), BATCH))
        return [output for batch in batches for output in self.task.answer(batch)]

    def predict_n_best(self, lines: Sequence[str], n: int = 5) -> list[list[tuple[str, float]]]:
        """The n best outputs for each input, or fewer, with scores; for `lines` see `predict`.

        A score is the logarithm of the output's probability, divided by the length penalty.

        Raises:
            LabError: the model does not write sequences, n is below 1, or an input cannot be read.
        """
        _check_texts(lines, "predict_n_best")
        if not isinstance(self.task, Transduction):
            raise LabError("several outputs for an input need a model that writes sequences")
        if n < 1:
            raise LabError(f"predict_n_best: n must be at least 1, got {n}")
        task, starts = self.task, range(0, len(lines), BATCH)
        batches = (task.codec.encode(lines[start : start + BATCH], start + 1) for start in starts)
        return [found for batch in batches for found in n_best_outputs(task, batch, n)]

    def unseen_symbols(self, lines: Sequence[str]) -> str:
        """One line that names the symbols in `lines` that training had none of; empty if there are none.

        The model reads each of them as the same unknown symbol.
        """
        tokenizer = _input_tokenizer(self.codec)
        if tokenizer is None:
            return ""
        sequences = (tokenizer.tokens(line) for line in lines)
        terms = Terms(examples="inputs")
        return unseen_symbols(sequences, tokenizer.vocabulary, "the inputs", terms, "input")

    def observe(self, lines: Sequence[str]) -> list[Observation]:
        """The outputs and the weights of every attention behind them; for `lines` see `predict`."""
        _check_texts(lines, "observe")
        return self.task.observe(self.codec.encode(lines))

    def export(self, path: str | Path) -> list[Path]:
        """Write the model as graphs that run without this package, and check them against it.

        A classifier, a language model or a kernel regression is one graph; a model that writes sequences is
        an encoder and one step of the decoder, `x.encoder.pt2` and `x.step.pt2`. Beside them `x.json` says
        what goes in and comes out, and which symbols the numbers stand for.

        Args:
            path: `x.pt2` for `torch.export`, `x.onnx` for ONNX (`pip install -e '.[export]'`).

        Returns:
            The files.

        Raises:
            LabError: the model cannot be exported, a package is missing, or the graph gives other numbers.
        """
        from attention_lab.experiment.exporting import export  # it takes a second, which most have no use for

        return export(self.model, self.codec, Path(path))


def _input_tokenizer(codec: Codec) -> Tokenizer | None:
    """What cuts the inputs into symbols; None for inputs of another kind."""
    if isinstance(codec, TransductionCodec):
        return codec.source
    return codec.tokenizer if isinstance(codec, ClassificationCodec | LanguageCodec) else None


def _check_texts(lines: object, method: str) -> None:
    """Raise LabError for anything but a list of texts."""
    if isinstance(lines, str):
        short = lines if len(lines) <= _SHOWN else f"{lines[:_SHOWN]}..."
        raise LabError(f"{method} takes a list of inputs, not a single text: {method}([{short!r}])")
    if not isinstance(lines, Sequence) or isinstance(lines, bytes):
        raise LabError(f"{method} takes a list of texts, such as ['attention'], not {_kind(lines)}")
    for number, line in enumerate(lines, start=1):
        if not isinstance(line, str):
            raise LabError(f"{method}: input {number} is {_kind(line)}, not a text, such as 'attention'")


def _kind(value: object) -> str:
    return f"of the type {type(value).__name__}"


def saved_score(checkpoint: Mapping[str, Any], path: Path) -> str:
    """The monitored metric and its value, if a checkpoint is the best one of its run."""
    states = checkpoint.get("callbacks")
    for state in states.values() if isinstance(states, Mapping) else ():
        if not isinstance(state, Mapping) or Path(str(state.get("best_model_path"))).name != path.name:
            continue
        score = state.get("best_model_score")
        value = score.item() if isinstance(score, Tensor) and score.numel() == 1 else score
        if is_number(value) and isinstance(state.get("monitor"), str):
            return f"{state['monitor']} {value:.4g}"
    return ""


def _symbols(codec: Codec) -> dict[str, str]:
    """What a codec reads and writes, by the names of its parts."""
    found = {}
    for field in fields(codec):
        value = getattr(codec, field.name)
        names = value.vocabulary.symbols if isinstance(value, Tokenizer) else value
        if isinstance(names, list) and names and all(isinstance(name, str) for name in names):
            more = " ..." if len(names) > _LISTED else ""
            found[field.name] = f"{len(names):,}: {' '.join(names[:_LISTED])}{more}"
    return found
