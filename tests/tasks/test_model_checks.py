"""What a task says about a model of the user's own that does not do what the task needs."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from toys import toy

from attention_lab.attention import ScaledDot
from attention_lab.data import Graph8, Reverse, Sentences, Sine, Words
from attention_lab.errors import LabError
from attention_lab.models import TransductionModel, Transformer
from attention_lab.tasks import LanguageModeling, NodeClassification, Regression, Transduction
from attention_lab.tasks.model_checks import SYMBOLS, checked_logits


@pytest.fixture(scope="module")
def data() -> Reverse:
    made = Reverse(train_size=6, validation_size=2, test_size=2)
    made.setup()
    return made


@pytest.fixture(scope="module")
def sentences() -> Sentences:
    made = Sentences(train_size=6, validation_size=2, test_size=2)
    made.setup()
    return made


class Changed(nn.Module):
    """A decoder whose result is changed afterwards."""

    def __init__(self, decoder: nn.Module, change: Any) -> None:
        super().__init__()
        self.decoder, self.change = decoder, change

    def start(self, encoded: Any) -> Any:
        return self.decoder.start(encoded)  # type: ignore[operator]

    def forward(self, tokens: Tensor, state: Any) -> Any:
        return self.change(*self.decoder(tokens, state))


class Own(TransductionModel):
    """A model of another package."""

    def __init__(self, decoder: Any) -> None:
        super().__init__()
        if decoder is not None:
            self.decoder = decoder

    def encode(self, source: Tensor, source_lengths: Tensor) -> Any:
        raise NotImplementedError


class Misnamed(Own):
    alignment = "decoder.atention"


class Decoder(nn.Identity):
    def start(self, encoded: Any) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (nn.Identity(), "Identity must derive from attention_lab.models.TransductionModel"),
        (Own(None), "Own needs a decoder with a method start"),
        (Own(nn.GRU(2, 2)), "Own needs a decoder with a method start"),
        (Misnamed(Decoder()), "Misnamed.alignment names 'decoder.atention', but there is no such module"),
    ],
)
def test_what_a_sequence_to_sequence_model_needs(model: Any, told: str, data: Reverse) -> None:
    task = Transduction(model, data.codec)
    with pytest.raises(LabError) as error:
        task.setup("fit")
    assert str(error.value) == told


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda logits, state: logits, "Changed must return logits and the state after them, not a Tensor"),
        (lambda logits, state: (logits[..., :-1], state), "not [2, {T}, {W}]"),
        (lambda logits, state: (torch.cat([logits, logits], -1), state), "not [2, {T}, {D}]"),
    ],
)
def test_what_a_decoder_of_ones_own_returns_is_checked(change: Any, told: str, data: Reverse) -> None:
    model = toy(Transformer, ScaledDot, data.codec.sizes)
    model.decoder = Changed(model.decoder, change)  # type: ignore[assignment]
    task = Transduction(model, data.codec)
    batch = data.splits.validation[torch.arange(2)]
    symbols = len(data.codec.target.vocabulary)
    sizes = {"T": batch.target.shape[1], "V": symbols, "W": symbols - 1, "D": 2 * symbols}  # type: ignore[attr-defined]
    with pytest.raises(LabError) as error:
        task.training_step(batch, 0)  # type: ignore[arg-type]
    assert str(error.value).endswith(told.format(**sizes))


@pytest.mark.parametrize(
    ("logits", "given"),
    [
        (torch.zeros(2, 5), "[2, 5]"),
        (torch.zeros(3, 2, 5), "[3, 2, 5]"),
        (torch.zeros(2, 3, 5).long(), "torch.int64"),
        ((torch.zeros(2, 3, 5),), "a tuple"),
    ],
)
def test_logits_have_a_row_for_each_symbol(logits: Any, given: str) -> None:
    with pytest.raises(LabError) as error:
        checked_logits(nn.Identity(), logits, [2, 3, 5], SYMBOLS)
    assert str(error.value) == (
        "Identity must return floating-point logits [2, 3, 5], one for each example, step and symbol, "
        f"not {given}"
    )


def test_a_state_can_be_selected_before_a_search_needs_it(data: Reverse) -> None:
    model = toy(Transformer, ScaledDot, data.codec.sizes)
    decoder = Changed(model.decoder, None)
    decoder.start = lambda encoded: (encoded,)  # type: ignore[method-assign]
    model.decoder = decoder  # type: ignore[assignment]
    with pytest.raises(
        LabError, match=r"^Changed.start must return a state with a method select, not a tuple$"
    ):
        Transduction(model, data.codec).training_step(data.splits.validation[torch.arange(2)], 0)  # type: ignore[arg-type]


class Table(nn.Module):
    """A bigram model, which cannot sample."""

    def __init__(self, vocabulary: int, columns: int) -> None:
        super().__init__()
        self.logits = nn.Embedding(vocabulary, columns)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.logits(tokens)  # type: ignore[no-any-return]


def test_a_language_model_can_be_continued(sentences: Sentences) -> None:
    symbols = len(sentences.codec.tokenizer.vocabulary)
    task = LanguageModeling(Table(symbols, symbols), sentences.codec)  # type: ignore[arg-type]
    with pytest.raises(LabError, match=r"^Table needs length, start and step to be sampled from$"):
        task.setup("fit")


def test_a_classifier_returns_no_axis_that_the_labels_lack() -> None:
    """It would train, but a list of one label for each input is not an output."""
    with pytest.raises(LabError, match=r"logits \[2, 5\], one for each example and class, not \[2, 1, 5\]$"):
        checked_logits(nn.Identity(), torch.zeros(2, 1, 5), [2, 5], "example and class")


def test_the_logits_of_a_language_model_are_checked(sentences: Sentences) -> None:
    symbols = len(sentences.codec.tokenizer.vocabulary)
    task = LanguageModeling(Table(symbols, symbols + 1), sentences.codec)  # type: ignore[arg-type]
    batch = sentences.splits.validation[torch.arange(2)]
    with pytest.raises(
        LabError, match=rf"^Table must return floating-point logits \[2, \d+, {symbols}\], one"
    ):
        task.training_step(batch, 0)  # type: ignore[arg-type]


class Sampled(Table):
    """A bigram model that samples, in its own way."""

    length = 64

    def __init__(self, vocabulary: int, start: Any, step: Any) -> None:
        super().__init__(vocabulary, vocabulary)
        self.starts, self.steps = start, step

    def start(self, tokens: Tensor) -> Any:
        return self.starts(self(tokens))

    def step(self, tokens: Tensor, state: Any) -> Any:
        return self.steps(self(tokens[:, None]))


def _last(logits: Tensor) -> Any:
    return logits[:, -1], None


@pytest.mark.parametrize(
    ("start", "step", "told"),
    [
        (lambda logits: (logits, None), _last, "Sampled.start must return {wanted}, not [2, 1, {V}]"),
        (lambda logits: logits[:, -1], _last, "Sampled.start must return {wanted}, not a Tensor"),
        (lambda logits: (logits[:1, -1], None), _last, "Sampled.start must return {wanted}, not [1, {V}]"),
        (_last, lambda logits: (logits, None), "Sampled.step must return {wanted}, not [2, 1, {V}]"),
        (_last, lambda logits: (None, logits), "Sampled.step must return {wanted}, not a tuple"),
        (
            lambda logits: (logits[:, -1].long(), 0),
            _last,
            "Sampled.start must return {wanted}, not torch.int64",
        ),
    ],
)
def test_what_a_language_model_samples_from_is_checked(
    start: Any, step: Any, told: str, sentences: Sentences
) -> None:
    symbols = len(sentences.codec.tokenizer.vocabulary)
    task = LanguageModeling(Sampled(symbols, start, step), sentences.codec)  # type: ignore[arg-type]
    task.setup("fit")
    with pytest.raises(LabError) as error:
        task.answer(sentences.codec.encode(["", ""]))
    wanted = f"logits [2, {symbols}] of the next symbol and the state after them"
    assert str(error.value) == told.format(V=symbols, wanted=wanted)


def test_a_model_that_cannot_be_trained_is_told(sentences: Sentences) -> None:
    task = LanguageModeling(Table(2, 2), sentences.codec)  # type: ignore[arg-type]
    with pytest.raises(LabError) as error:
        task.backward(task.model(torch.zeros(1, dtype=torch.int64)).detach().sum())
    assert str(error.value) == (
        "Table cannot be trained: its loss depends on none of its parameters, "
        "or only on detached or frozen ones"
    )


class Continued(nn.Module):
    """A language model of 12 symbols at most, which gives logits of this many symbols."""

    def __init__(self, symbols: int, length: Any = 12) -> None:
        super().__init__()
        self.symbols, self.length = symbols, length

    def start(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        return torch.zeros(len(tokens), self.symbols), tokens

    def step(self, tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        return torch.zeros(len(tokens), self.symbols), state


@pytest.mark.parametrize("change", [-1, 1])
def test_symbols_that_do_not_exist(change: int) -> None:
    """With too many, it ended in an IndexError for some of the samples."""
    data = Words(size=50, validation_size=5, test_size=5)
    data.setup()
    symbols = data.sizes.vocabulary
    model: Any = Continued(symbols + change)
    task = LanguageModeling(model, data.codec).eval()
    with pytest.raises(LabError) as error:
        task.answer(data.probe(2))
    told = f"Continued.start must return logits [2, {symbols}] of the next symbol and the state after them"
    assert str(error.value) == f"{told}, not [2, {symbols + change}]"


@pytest.mark.parametrize(
    ("length", "told"),
    [(0, "at least 1, got 0"), (1.5, "a whole number, not 1.5"), (None, "a whole number, not None")],
)
def test_the_length_of_a_language_model(length: Any, told: str) -> None:
    data = Words(size=50, validation_size=5, test_size=5)
    data.setup()
    model: Any = Continued(data.sizes.vocabulary, length)
    with pytest.raises(LabError) as error:
        LanguageModeling(model, data.codec).setup("fit")
    assert str(error.value) == f"Continued.length must be {told}"


def test_what_a_regression_model_needs() -> None:
    """Pictures show the samples that it has memorised."""
    data = Sine(train_size=5)
    data.setup()
    model: Any = nn.Identity()
    with pytest.raises(LabError, match=r"^Identity must derive from attention_lab\.models\.KernelRegression"):
        Regression(model, data.codec).setup("fit")


class Nodes(nn.Module):
    """A classifier of nodes that returns what a test gives."""

    def __init__(self, logits: Any) -> None:
        super().__init__()
        self.logits = logits

    def forward(self, features: Tensor, edges: Tensor) -> Any:
        return self.logits


@pytest.mark.parametrize(
    ("logits", "given"),
    [(None, "a NoneType"), (torch.zeros(3, 2), "[3, 2]"), (torch.zeros(1, 8, 2), "[1, 8, 2]")],
)
def test_the_logits_of_a_classifier_of_nodes(logits: Any, given: str) -> None:
    """They are those of all nodes of the graph, also if a batch has some of them."""
    data = Graph8()
    data.setup()
    model: Any = Nodes(logits)
    with pytest.raises(LabError) as error:
        NodeClassification(model, data.codec).logits(data.probe(2))
    told = "Nodes must return floating-point logits [8, 2], one for each node of the graph and class"
    assert str(error.value) == f"{told}, not {given}"
