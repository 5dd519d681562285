"""What `predict` of a loaded model accepts."""

from pathlib import Path
from typing import Any

import pytest
import torch
from saved_models import transduction
from torch import nn

from attention_lab.data.reading.codecs import ClassificationCodec, ImageCodec, TransductionCodec
from attention_lab.data.reading.vocabulary import Notation, Tokenizer
from attention_lab.errors import LabError
from attention_lab.experiment.checkpoints import saved_score
from attention_lab.inference import trained_model
from attention_lab.inference.trained_model import TrainedModel
from attention_lab.tasks import Observation, Task
from attention_lab.tasks.errors import text_limit


class Echo(Task):
    """Says how many inputs there are."""

    def answer(self, batch: Any) -> list[str]:
        return [str(len(batch.source))] * len(batch.source)

    def observe(self, batch: Any) -> list[Any]:
        return self.answer(batch)


@pytest.fixture
def trained() -> TrainedModel:
    letters = Tokenizer.of(Notation("characters"), ["abc"])
    return TrainedModel(Echo(nn.Identity(), TransductionCodec(letters, letters)))


@pytest.mark.parametrize("method", ["predict", "observe"])
def test_a_list_of_texts_is_needed(trained: TrainedModel, method: str) -> None:
    call = getattr(trained, method)
    assert call(["cab", "a"]) == call(("cab", "a")) == ["2", "2"]
    for given, said in {
        "cab": rf"^{method} takes a list of inputs, not a single text: {method}\(\['cab'\]\)$",
        "a" * 5000: r"aaa\.\.\.'\]\)$",
        (3,): rf"^{method}: input 1 is of the type int, not a text",
        ("a", None): rf"^{method}: input 2 is of the type NoneType, not a text",
        b"cab": "not a value of the type bytes$",
        7: "not a value of the type int$",
    }.items():
        with pytest.raises(LabError, match=said):
            call(given)


class Placed(Echo):
    """Says which device each input is on."""

    def answer(self, batch: Any) -> list[str]:
        return [str(batch.source.device)] * len(batch.source)


@pytest.mark.parametrize("method", ["predict", "observe"])
def test_inputs_follow_a_model_to_its_device(method: str) -> None:
    letters = Tokenizer.of(Notation("characters"), ["abc"])
    trained = TrainedModel(Placed(nn.Linear(1, 1), TransductionCodec(letters, letters)))
    assert getattr(trained, method)(["cab"]) == ["cpu"]
    trained.model.to("meta")
    assert getattr(trained, method)(["cab"]) == ["meta"]


@pytest.mark.parametrize("method", ["predict", "observe", "unseen_symbols"])
def test_a_line_of_source_and_target_is_refused(trained: TrainedModel, method: str) -> None:
    with pytest.raises(LabError, match=r"^input 2: contains a tab; give only the source$"):
        getattr(trained, method)(["cab", "a\tb"])


def test_unless_sources_may_have_tabs() -> None:
    with_tab = Tokenizer.of(Notation("characters"), ["ab\t"])
    tagged = Tokenizer.of(Notation("lemma_tags"), ["ab"])
    for source in (with_tab, tagged):
        trained = TrainedModel(Echo(nn.Identity(), TransductionCodec(source, with_tab)))
        assert trained.predict(["a\tb"]) == ["1"]
        assert trained.reads_columns == (source is tagged)


def test_a_line_that_cannot_be_read_is_named_before_symbols_are() -> None:
    tagged = Tokenizer.of(Notation("lemma_tags"), ["ab"])
    trained = TrainedModel(Echo(nn.Identity(), TransductionCodec(tagged, tagged)))
    with pytest.raises(LabError, match=r"^input 3: a line is lemma<TAB>tags; known forms may follow"):
        trained.unseen_symbols(["a\tN", "", "b"])


def test_a_model_and_an_observation_print_what_they_are() -> None:
    long = Tokenizer.of(Notation("characters"), ["abcdefghijklmnop\x1b"])
    short = Tokenizer.of(Notation("spaces"), [["AH", "B"]])
    task = Echo(nn.Linear(100, 12), TransductionCodec(long, short))
    score = {"best_model_path": "/x/best.ckpt", "best_model_score": torch.tensor(0.0625), "monitor": "loss"}
    content = {"callbacks": {"EarlyStopping": {"wait": 1}, "ModelCheckpoint{}": score}}
    path = Path("logs/run/best.ckpt")
    shown = repr(TrainedModel(task, [path], saved_score(content, path)))
    assert shown.splitlines() == [
        "TrainedModel",
        "  model   Linear, 1,212 parameters",
        "  task    Echo",
        "  source  17: � a b c d e f g h i j k ...",
        "  target  2: AH B",
        "  score   loss 0.0625",
        "  file    logs/run/best.ckpt",
    ]
    assert repr(Observation("ab", "A B", "", ())) == "Observation('ab' -> 'A B'; weights: none)"


@pytest.mark.parametrize(
    "content", [{}, {"callbacks": 3}, {"callbacks": {"a": {"best_model_path": "best.ckpt"}}}]
)
def test_a_checkpoint_without_a_score_has_none(content: dict[str, Any]) -> None:
    assert saved_score(content, Path("best.ckpt")) == ""
    assert saved_score({"callbacks": {"a": {"best_model_path": 7, "best_model_score": "x"}}}, Path("7")) == ""


def test_symbols_that_training_had_none_of_are_named(trained: TrainedModel) -> None:
    assert trained.unseen_symbols(["cab", "b"]) == ""
    assert trained.unseen_symbols(["cab", '"a1"']) == (
        "2 symbols in the inputs never occur in training and are read as unknown: '\"', '1' "
        "(in 1 of 2 inputs, first in input 2)"
    )
    many = trained.unseen_symbols(["a", *["x"] * 7])
    assert many == (
        "1 symbol in the inputs never occurs in training and is read as unknown: 'x' "
        "(in 7 of 8 inputs, first in input 2)"
    )
    assert len(trained.unseen_symbols(["\x1b" + "".join(map(chr, range(1000, 9000)))])) < 250


@pytest.mark.parametrize(("beams", "largest"), [(1, 256), (8, 256), (20, 102), (1000, 2)])
def test_batches_are_smaller_with_more_beams(
    beams: int, largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = transduction(beam_size=beams)
    sizes: list[int] = []

    def outputs(batch: Any, *_: Any) -> list[Any]:
        sizes.append(len(batch.source))
        return [""] * len(batch.source)

    monkeypatch.setattr(task, "answer", outputs)
    monkeypatch.setattr(task, "n_best_answers", outputs)
    lines = ["ab"] * 300
    assert len(TrainedModel(task).predict(lines)) == 300
    assert sizes[0] == largest and sum(sizes) == 300
    sizes.clear()
    assert len(TrainedModel(task).predict_n_best(lines, 20)) == 300
    assert sizes[0] == min(largest, 102) and sum(sizes) == 300


@pytest.mark.parametrize(("height", "largest"), [(8, 256), (32, 256), (40, 204), (512, 16), (1 << 14, 1)])
def test_batches_of_high_images_are_smaller(
    height: int, largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint chooses the height of the user's images: with 512, a batch of small ones took 8 GB."""
    sizes: list[int] = []

    def encode(_: ImageCodec, lines: list[str], first: int) -> list[str]:
        sizes.append(len(lines))
        return lines

    monkeypatch.setattr(ImageCodec, "encode", encode)
    monkeypatch.setattr(Echo, "answer", lambda _, lines: lines)
    letters = Tokenizer.of(Notation("characters"), ["abc"])
    trained = TrainedModel(Echo(nn.Identity(), ImageCodec(height, 8, letters)))
    assert len(trained.predict(["image.png"] * 300)) == 300
    assert sizes[0] == largest and sum(sizes) == 300


@pytest.mark.parametrize(("labels", "largest"), [(1000, 256), (1 << 20, 64), (1 << 27, 1)])
def test_batches_with_more_labels_are_smaller(
    labels: int, largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []

    def encode(_: ClassificationCodec, lines: list[str], first: int) -> list[str]:
        sizes.append(len(lines))
        return lines

    class Labels(list[str]):
        def __len__(self) -> int:
            return labels

    monkeypatch.setattr(ClassificationCodec, "encode", encode)
    monkeypatch.setattr(Echo, "answer", lambda _, lines: lines)
    trained = TrainedModel(Echo(nn.Identity(), ClassificationCodec(Labels(["a"]), length=4, features=2)))
    assert len(trained.predict(["1 2"] * 300)) == 300
    assert sizes[0] == largest and sum(sizes) == 300


def test_the_text_of_all_outputs_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint chooses the symbols: 2,000 short words as input of one of 200 KB took more than 8 GB."""
    task = transduction()
    trained, sizes = TrainedModel(task), []

    def outputs(batch: Any, n: int = 0) -> list[Any]:
        sizes.append(len(batch.source))
        output = "x" * 1000
        return [[(output, 0.0)] * n if n else output] * len(batch.source)

    monkeypatch.setattr(task, "answer", outputs)
    monkeypatch.setattr(task, "n_best_answers", outputs)
    for module in (trained_model, text_limit):
        monkeypatch.setattr(module, "MOST_TEXT", 80_000)
    assert len(trained.predict(["ab"] * 100)) == 100  # 100,000 characters: 80,000 + 100 * 200
    assert len(trained.predict_n_best(["ab"] * 16, 5)) == 16
    for predict in (trained.predict, lambda lines: trained.predict_n_best(lines, 2)):
        with pytest.raises(
            LabError, match=r"^the outputs have more than 80,000 characters plus 100 for each "
        ):
            predict(["ab"] * 300)
    symbols = task.codec.target.vocabulary.symbols
    monkeypatch.setattr(task.codec.target.vocabulary, "symbols", ["x" * 10_000, *symbols[1:]])
    sizes.clear()
    trained.predict(["ab"] * 10)
    assert sizes == [6, 4]


def test_observations_are_made_in_small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    task, lines = transduction(), ["ab", "lo"] * 40
    sizes: list[int] = []
    observe = task.observe

    def counted(batch: Any) -> list[Observation]:
        sizes.append(len(batch.source))
        return observe(batch)

    monkeypatch.setattr(task, "observe", counted)
    trained = TrainedModel(task)
    found = trained.observe(lines)
    assert sizes == [32, 32, 16] and [one.input for one in found] == lines
    assert [one.output for one in found] == trained.predict(lines)
    assert trained.observe([]) == trained.predict([]) == []
    with pytest.raises(LabError, match=r"no attention 'encoder': choose one of decoder\.attention$"):
        found[0].labels("encoder")


@pytest.mark.parametrize("n", [0, 2.5, "3", None, 1001])
def test_the_number_of_outputs_is_checked(n: Any) -> None:
    with pytest.raises(LabError, match=f"n must be a whole number from 1 to 1000, got {n!r}$"):
        TrainedModel(transduction()).predict_n_best(["ab"], n)


def test_the_best_output_alone_is_that_of_a_list_of_inputs() -> None:
    model = TrainedModel(transduction())
    assert [len(found) for found in model.predict_n_best(["ab", "b"], 1)] == [1, 1]
    with pytest.raises(LabError, match=r"^predict_n_best takes a list of inputs, not a single text"):
        model.predict_n_best("ab", 1)
