from dataclasses import replace
from pathlib import Path

import pytest
import torch
from counted_comparisons import Compared

from attention_lab.data.reading.codecs import (
    ClassificationCodec,
    Codec,
    ImageCodec,
    NodeCodec,
    RegressionCodec,
    TransductionCodec,
    codec_from_state,
)
from attention_lab.data.reading.vocabulary import Notation, Tokenizer, Vocabulary
from attention_lab.errors import LabError, LineError
from attention_lab.sizes import ClassificationSizes, TransductionSizes
from attention_lab.special_symbols import EOS, UNK

NUMBERS = RegressionCodec(["x", "z"], "y", mean=[1.0, 0.0, 10.0], deviation=[2.0, 1.0, 5.0])
ONE_NUMBER = RegressionCodec(["x"], "y", mean=[1.0, 10.0], deviation=[2.0, 5.0])
LETTERS = Tokenizer(Notation("characters", "NFD", lowercase=True), Vocabulary(["a", "b", "é"]))
PHONES = Tokenizer(Notation("spaces"), Vocabulary(["AH", "B"]))
TRANSDUCTION = TransductionCodec(LETTERS, PHONES)
SEVERAL = ClassificationCodec(["no", "yes"], length=4, tokenizer=LETTERS, answers=3)
TEXTS = ClassificationCodec(["no", "yes"], length=4, tokenizer=LETTERS)
VECTORS = ClassificationCodec(["0", "1", "2"], length=2, features=3, scale=2.0)


@pytest.mark.parametrize("codec", [NUMBERS, TRANSDUCTION, TEXTS, SEVERAL, VECTORS])
def test_a_codec_survives_a_checkpoint(codec: Codec, tmp_path: Path) -> None:
    torch.save(codec.state(), tmp_path / "codec.pt")
    state = torch.load(tmp_path / "codec.pt", weights_only=True)
    assert codec_from_state(state) == codec


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(LabError, match="'images'"):
        codec_from_state({"kind": "images"})


@pytest.mark.parametrize("answers", [0, 5, 10**9])
def test_more_answers_than_tokens_or_none_are_refused(answers: int) -> None:
    with pytest.raises(LabError, match=f"the checkpoint's codec has {answers} answers for 4 tokens"):
        codec_from_state(SEVERAL.state() | {"answers": answers})


@pytest.mark.parametrize("part", ["mean", "deviation"])
def test_columns_without_their_own_mean_and_deviation_are_refused(part: str) -> None:
    for numbers in ([], [1.0, 2.0], [1.0] * 4):
        with pytest.raises(
            LabError, match="the checkpoint's codec needs a mean and a deviation for each of 3 "
        ):
            codec_from_state(NUMBERS.state() | {part: numbers})


@pytest.mark.parametrize(
    "wrong",
    [
        *({"edges": edges} for edges in ([[0]], [[0, 1, 1]], [[0, 2]], [[0, 1], []])),
        *({"features": features} for features in ([], [[1.0]], [[], []], [[1.0], []], [[1.0], [2.0, 3.0]])),
    ],
    ids=str,
)
def test_edges_and_features_that_do_not_fit_the_nodes_are_refused(wrong: dict[str, object]) -> None:
    state = NodeCodec(["a", "b"], ["no", "yes"], [[0, 1]], [[1.0], [2.0]]).state()
    assert isinstance(codec_from_state(state), NodeCodec)
    with pytest.raises(
        LabError, match=f"the checkpoint's codec has {next(iter(wrong))} that do not fit its 2 n"
    ):
        codec_from_state(state | wrong)


@pytest.mark.parametrize(("height", "cell"), [(1, 4), (0, 4), (4, 0), (6, 4)])
def test_images_that_no_cell_fits_are_refused(height: int, cell: int) -> None:
    state = ImageCodec(12, 4, LETTERS).state() | {"height": height, "cell": cell}
    with pytest.raises(LabError, match=f"cuts {height} rows of pixels into cells of {cell}"):
        codec_from_state(state)


def test_standardisation_and_its_inverse() -> None:
    train = torch.tensor([[1.0, 7.0, 10.0], [3.0, 7.0, 30.0]], dtype=torch.float64)
    codec = RegressionCodec.of(["x", "z"], "y", train, standardize=True)
    assert (codec.mean, codec.deviation) == ([2.0, 7.0, 20.0], [1.0, 1.0, 10.0])
    inputs, targets = codec.standardize(train)
    assert inputs.tolist() == [[-1.0, 0.0], [1.0, 0.0]]
    assert targets.tolist() == [[-1.0], [1.0]]
    assert inputs.dtype == targets.dtype == torch.float32
    assert codec.restore_inputs(inputs).equal(train[:, :2].float())
    assert codec.restore_targets(targets).equal(train[:, 2:].float())
    assert codec.decode(targets[1]) == "30"


def test_a_shift_costs_no_precision() -> None:
    train = torch.tensor([[1e8, 0.0], [1e8 + 1, 1.0]], dtype=torch.float64)
    inputs, _ = RegressionCodec.of(["x"], "y", train, standardize=True).standardize(train)
    assert inputs.tolist() == [[-1.0], [1.0]]


def test_without_standardisation_numbers_stay() -> None:
    train = torch.tensor([[1.0, 10.0], [3.0, 30.0]], dtype=torch.float64)
    inputs, targets = RegressionCodec.of(["x"], "y", train, standardize=False).standardize(train)
    assert torch.cat([inputs, targets], dim=1).equal(train.float())


def test_lines_of_numbers() -> None:
    batch = NUMBERS.encode(["3, 0.5", "1 2\n", "1\t2"])
    assert batch.inputs.tolist() == [[1.0, 0.5], [0.0, 2.0], [0.0, 2.0]]
    assert batch.targets.tolist() == [[0.0]] * 3
    assert batch.index.tolist() == [-1] * 3


def test_lines_of_symbols() -> None:
    batch = TRANSDUCTION.encode(["Ab", "xabé"])
    assert batch.source.tolist() == [[4, 5, EOS, 0, 0, 0], [UNK, 4, 5, UNK, UNK, EOS]]  # é is e and an accent
    assert batch.source_lengths.tolist() == [3, 6]
    assert batch.target.tolist() == [[EOS], [EOS]]
    assert batch.target_lengths.tolist() == [1, 1]
    assert batch.references.shape == (2, 0, 1)
    assert batch.alignment.tolist() == [[-1], [-1]]
    assert TRANSDUCTION.source_labels(batch.source[0]) == ["a", "b", "</s>"]
    assert TRANSDUCTION.target.labels([5, 4, EOS, 0]) == ["B", "AH", "</s>"]
    assert TRANSDUCTION.decode([5, 4, EOS, 0]) == "B AH"
    assert TRANSDUCTION.sizes == TransductionSizes(7, 6)


def test_a_source_to_predict_for_has_at_most_ten_thousand_symbols() -> None:
    assert TRANSDUCTION.encode(["a" * 10_000]).source_lengths.item() == 10_001
    with pytest.raises(LineError) as raised:
        TRANSDUCTION.encode(["a", "a" * 10_001], first=5)
    assert (raised.value.number, raised.value.problem) == (
        6,
        "10,001 symbols, but an input may have at most 10,000: split it into several lines",
    )


def test_lines_to_classify() -> None:
    batch = TEXTS.encode(["ab", "b"])
    assert batch.inputs.tolist() == [[4, 5], [5, 0]]
    assert (batch.lengths.tolist(), batch.labels.tolist()) == ([2, 1], [-1, -1])
    assert TEXTS.token_labels(batch.inputs[1], 1) == ["b"]
    assert TEXTS.decode(1) == "yes"
    assert TEXTS.sizes == ClassificationSizes(classes=2, length=4, vocabulary=7)


class _Label(Compared):
    """A label that counts how often it is compared."""


def test_a_label_is_not_searched_for_among_all_others() -> None:
    """A file in which every label is different would take quadratic time."""
    names = [f"l{number}" for number in range(100)]
    codec = replace(TEXTS, labels=[_Label(name) for name in names])
    assert [codec.label(name) for name in names] == list(range(100))
    assert _Label.times <= 300  # and not 5000


def test_lines_of_vectors() -> None:
    batch = VECTORS.encode(["1 2 3 4 5 6", "0,0,0,0,0,1"])
    assert batch.inputs.tolist() == [[[0.5, 1.0, 1.5], [2.0, 2.5, 3.0]], [[0, 0, 0], [0, 0, 0.5]]]
    assert (batch.lengths.tolist(), batch.labels.tolist()) == ([2, 2], [-1, -1])
    assert VECTORS.token_labels(batch.inputs[1], 2) == ["···", "··▒"]
    assert VECTORS.input_text(batch.inputs[1], 2) == "··· ··▒"
    assert VECTORS.sizes == ClassificationSizes(classes=3, length=2, features=3)


def test_vectors_that_are_no_small_picture_have_numbers() -> None:
    """Shades would be wrong below 0 and above 1, and a thousand of them would fill a console."""
    (negative, large, nan), many = torch.tensor([-0.1, 1.5, torch.nan]), torch.zeros(33, 3)
    assert VECTORS.input_text(torch.zeros(2, 33), 2) == "2 vectors of 33 numbers"
    for value in (negative, large, nan):
        vectors = torch.stack([torch.ones(3), value.expand(3)])
        assert VECTORS.token_labels(vectors, 2) == ["1", "2"]
        assert VECTORS.input_text(vectors, 2) == "2 vectors of 3 numbers"
    assert VECTORS.token_labels(many, 33)[-1] == "33" and VECTORS.token_labels(many, 32)[-1] == "···"
    assert VECTORS.input_text(many[:, :1], 33) == "33 vectors of 1 number"


@pytest.mark.parametrize(
    ("codec", "line", "expected"),
    [
        (NUMBERS, "1", "input 2: 1 number, but 2 are needed: x, z"),
        (ONE_NUMBER, "1 2", "input 2: 2 numbers, but 1 is needed: x"),
        (ONE_NUMBER, "", "input 2: no numbers, but 1 is needed: x"),
        (NUMBERS, "x, z", "input 2: a header: leave out this line, as each line is an input: x, z"),
        (NUMBERS, "w,x,z,y", "input 2: a header: leave out this line, as each line is an input: x, z"),
        (NUMBERS, "1,two", "input 2: 'two' should be a finite number, such as 1.5"),
        (TRANSDUCTION, "\n", "input 2: empty; at least one symbol is needed"),
        (TEXTS, "", "input 2: empty; at least one symbol is needed"),
        (TEXTS, "ababa", "input 2: 5 characters, but the model reads at most 4 (data.max_length)"),
        (VECTORS, "1 2 3", "input 2: 3 numbers, but 2 x 3 are needed"),
        (VECTORS, "1", "input 2: 1 number, but 2 x 3 are needed"),
    ],
)
def test_bad_lines(codec: Codec, line: str, expected: str) -> None:
    numbers = {id(VECTORS): "1 2 3 4 5 6", id(NUMBERS): "1 2", id(ONE_NUMBER): "1"}
    first = numbers.get(id(codec), "a")
    with pytest.raises(LabError) as caught:
        codec.encode([first, line])
    assert str(caught.value) == expected


@pytest.mark.parametrize("codec", [NUMBERS, TRANSDUCTION, TEXTS, VECTORS])
def test_no_lines_are_refused(codec: Codec) -> None:
    with pytest.raises(LabError, match="no lines"):
        codec.encode([])


@pytest.mark.parametrize("name", ["\x1b[2J\n\u202e", "x" * 10_000])
def test_names_of_a_model_of_others_cannot_control_a_terminal(name: str) -> None:
    """A message that repeats them may end up in the traceback of the user's own program."""
    columns = RegressionCodec([name, "z"], "y", mean=[1.0, 0.0, 10.0], deviation=[2.0, 1.0, 5.0])
    graph = NodeCodec([name, "b"], ["no", "yes"], [[0, 1]])
    for codec in (columns, graph):
        with pytest.raises(LabError, match=r"^input 1: ") as error:
            codec.encode(["c"])
        assert str(error.value).isprintable()
        assert len(str(error.value)) < 5000


def test_text_is_refused_by_a_codec_of_vectors() -> None:
    with pytest.raises(LabError, match="vectors of numbers, not text"):
        VECTORS.tokens("abc")


@pytest.mark.parametrize(
    ("symbol", "message"),
    [
        (
            "\ud800",
            r"the checkpoint's codec of the kind 'transduction' has invalid values of target \(Tokenizer\)",
        ),
        ("x" * 10_001, r"the symbol 'xxx.*' has 10,001 characters, more than 10,000: split it"),
    ],
)
def test_symbols_that_no_text_has_are_refused(symbol: str, message: str) -> None:
    tokenizer = Tokenizer(Notation("spaces"), Vocabulary(["a", "b"]))
    state = TransductionCodec(tokenizer, tokenizer).state()
    assert codec_from_state(state).decode([4, 5]) == "a b"
    state["target"] = {**state["target"], "symbols": ["a", symbol]}
    with pytest.raises(LabError, match=f"^{message}$"):
        codec_from_state(state)


def test_an_alphabet_with_a_lone_surrogate_is_refused() -> None:
    tokenizer = Tokenizer(Notation("spaces"), Vocabulary(["a", "b"]))
    state = TransductionCodec(tokenizer, tokenizer).state()
    state["source"] = {**state["source"], "split": "subwords", "alphabet": "\ud800", "merges": []}
    with pytest.raises(LabError, match="has invalid values"):
        codec_from_state(state)


@pytest.mark.parametrize("label", ["\ud800", "x" * 10_001])
def test_labels_that_no_text_has_are_refused(label: str) -> None:
    state = {**TEXTS.state(), "labels": ["no", label]}
    with pytest.raises(LabError, match="has invalid values"):
        codec_from_state(state)
