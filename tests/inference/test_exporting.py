"""Exported models give the model's own results, also at lengths other than those of the export."""

import contextlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from toys import toy

from attention_lab.attention import Additive, Dot, Gaussian, LocalP, Mechanism, Monotonic, Score
from attention_lab.data.reading.codecs import RegressionCodec, TransductionCodec
from attention_lab.data.reading.vocabulary import Notation, Tokenizer
from attention_lab.errors import LabError
from attention_lab.inference import exporting
from attention_lab.inference.exporting import export
from attention_lab.inference.trained_model import TrainedModel
from attention_lab.models import (
    ConvolutionalClassifier,
    Ensemble,
    GraphClassifier,
    KernelRegression,
    LanguageModel,
    MultiHeadClassifier,
    RecurrentClassifier,
    Seq2Seq,
    Transformer,
)
from attention_lab.models.exporting import Graph
from attention_lab.sizes import ClassificationSizes, RegressionSizes, TransductionSizes
from attention_lab.special_symbols import BOS, EOS
from attention_lab.tasks import Transduction

LETTERS = Tokenizer.of(Notation("characters"), ["abcde"])
PHONES = Tokenizer.of(Notation("characters"), ["wxyz"])
PAIRS = TransductionCodec(LETTERS, PHONES)
WORDS = ["a", "abcde", "ccab", "edcbaabcdeedcba"]


def _regression() -> KernelRegression:
    model = KernelRegression(Mechanism(Gaussian), RegressionSizes(2, 1, 20))
    generator = torch.Generator().manual_seed(0)
    model.memorize(torch.randn(20, 2, generator=generator), torch.randn(20, 1, generator=generator))
    return model


MODELS: dict[str, Any] = {
    "seq2seq": lambda: toy(Seq2Seq, Additive),
    "bahdanau": lambda: toy(Seq2Seq, wiring="bahdanau", cell="gru", layers=2, input_feeding=True),
    "gru": lambda: toy(Seq2Seq, cell="gru", layers=2),
    "local_p": lambda: toy(Seq2Seq, Mechanism(Dot, window=LocalP)),
    "tags": lambda: toy(Seq2Seq, sizes=TransductionSizes(11, 9, tags=2), tag_input=True),
    "transformer": lambda: toy(Transformer, positions="rotary"),
    "multihead": lambda: toy(MultiHeadClassifier),
    "cnn": lambda: toy(ConvolutionalClassifier),
    "rnn": lambda: toy(RecurrentClassifier),
    "lm": lambda: toy(LanguageModel),
    "nw": _regression,
}
CODECS: dict[str, Any] = {"nw": RegressionCodec(["a", "b"], "y", [0.0] * 3, [1.0] * 3)}
FAST = {("multihead", "pt2")}
ALL = [(name, "pt2") for name in MODELS] + [(name, "onnx") for name in MODELS if name != "local_p"]


pytestmark = pytest.mark.usefixtures("unchecked_shapes")
"""While a graph is traced, sizes are symbols, which the checks of shapes do not know."""


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "suffix"),
    [pytest.param(*one, marks=[] if one in FAST else pytest.mark.slow) for one in ALL],
)
def test_the_files_give_what_the_model_gives(name: str, suffix: str, tmp_path: Path) -> None:
    if suffix == "onnx":
        pytest.importorskip("onnxruntime")
        pytest.importorskip("onnxscript")
    *files, about = export(MODELS[name]().eval(), CODECS.get(name, PAIRS), tmp_path / f"m.{suffix}")
    told = json.loads(about.read_text())
    assert [tmp_path / graph["file"] for graph in told["graphs"].values()] == files
    assert told["largest_difference"] < 1e-5  # compared on five batch sizes and lengths
    assert all(file.stat().st_size > 0 for file in files)


@pytest.mark.slow
def test_a_model_of_short_inputs_is_exported(tmp_path: Path) -> None:
    """An example longer than all inputs is traced differently: the graph rejected those that are valid."""
    sizes = ClassificationSizes(classes=3, length=2, vocabulary=12)
    *files, about = export(toy(MultiHeadClassifier, sizes=sizes).eval(), PAIRS, tmp_path / "m.pt2")
    assert json.loads(about.read_text())["graphs"]["model"]["longest"] == 2
    assert files == [tmp_path / "m.pt2"]


@pytest.mark.slow
def test_words_are_decoded_from_the_files_alone(tmp_path: Path) -> None:
    task = Transduction(toy(Seq2Seq, Additive, seed=3), PAIRS)
    trained = TrainedModel(task)
    encoder, step, about = trained.export(tmp_path / "m.pt2")
    told = json.loads(about.read_text())
    start, advance = (torch.export.load(path).module() for path in (encoder, step))
    symbols = told["codec"]["source"]["symbols"]
    for word in WORDS:
        source = torch.tensor([[*(4 + symbols.index(letter) for letter in word), EOS]])
        state, token, written = start(source, torch.tensor([source.shape[1]])), torch.tensor([BOS]), ""
        for _ in range(3 * source.shape[1] + 10):
            logits, *state = advance(token, *state)
            logits[:, [0, 1]] = -torch.inf
            token = logits.argmax(-1)
            if token == EOS:
                break
            written += {3: "<unk>"}.get(int(token)) or told["codec"]["target"]["symbols"][int(token) - 4]
        assert [written] == trained.predict([word])


@pytest.mark.slow
def test_models_that_onnx_cannot_represent_are_reported_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(
        LabError,
        match=r"m.step.onnx: ONNX cannot represent this model: window=local_p in a recurrent decoder "
        r"with wiring=luong and without input feeding; choose export=model.pt2$",
    ):
        export(MODELS["local_p"]().eval(), PAIRS, tmp_path / "m.onnx")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: toy(GraphClassifier),
            "GraphClassifier cannot be exported; seq2seq, transformer, lm, nw and",
        ),
        (lambda: Ensemble([toy(Seq2Seq)]), "an ensemble cannot be exported: export each of its checkpoints"),
        (lambda: toy(Seq2Seq, Mechanism(Dot, pooling=Monotonic)), "pooling=monotonic cannot be exported"),
    ],
)
def test_models_that_cannot_be_exported_are_reported_in_one_line(
    make: Any, said: str, tmp_path: Path
) -> None:
    with pytest.raises(LabError, match=said) as error:
        export(make(), PAIRS, tmp_path / "m.pt2")
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_package_and_another_ending_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        LabError, match=r"^export=m.txt: the file must end in .pt2 \(torch.export\), .onnx or .safetensors$"
    ):
        export(toy(Seq2Seq), PAIRS, tmp_path / "m.txt")
    monkeypatch.setattr(exporting, "find_spec", lambda name: None if name == "onnxscript" else name)
    with pytest.raises(LabError, match=r"needs onnxscript: pip install -e '\.\[export\]'"):
        export(toy(Seq2Seq), PAIRS, tmp_path / "m.onnx")


class _Distance(Score):
    """Its `cdist` computes in one way up to 25 keys, and in another beyond."""

    def forward(self, query: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        return -torch.cdist(query, keys)


@pytest.mark.long
def test_a_graph_that_runs_only_on_some_lengths_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(
        LabError, match=r"m.step.pt2: the graph does not run on a batch of 2 with length 200: .*Guard failed"
    ) as error:
        export(toy(Seq2Seq, _Distance).eval(), PAIRS, tmp_path / "m.pt2")
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_a_graph_that_gives_other_numbers_is_noticed(tmp_path: Path, monkeypatch) -> None:
    right = exporting._run_torch
    monkeypatch.setattr(exporting, "_run_torch", lambda file: lambda x: [one + 0.1 for one in right(file)(x)])
    with pytest.raises(LabError, match=r"m.pt2: its outputs differ from the model's by up to 0.1"):
        export(_regression(), CODECS["nw"], tmp_path / "m.pt2")
    assert list(tmp_path.iterdir()) == []


def test_no_graph_is_written_if_a_later_one_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An encoder alone could be taken for one that passed, or be used with the step of an earlier export."""
    both = [_graph(lambda x: (x,), "encoder"), _graph(lambda x: (x + 1,), "step")]
    monkeypatch.setattr(exporting, "graphs_of", lambda *_: both)
    monkeypatch.setattr(exporting, "_converted", lambda graph, file: (b"graph", lambda inputs: inputs))
    with pytest.raises(LabError, match=r"m.step.pt2: its outputs differ"):
        export(torch.nn.Identity(), PAIRS, tmp_path / "m.pt2")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["m.step.pt2", "m.json"])
def test_no_graph_is_written_if_a_later_file_cannot_be(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = [_graph(lambda x: (x,), "encoder"), _graph(lambda x: (x,), "step")]
    monkeypatch.setattr(exporting, "graphs_of", lambda *_: both)
    monkeypatch.setattr(exporting, "_converted", lambda graph, file: (b"graph", lambda inputs: inputs))
    (tmp_path / name).mkdir()
    with pytest.raises(LabError, match=f"cannot write .*{name}: Is a directory"):
        export(torch.nn.Identity(), PAIRS, tmp_path / "m.pt2")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def _graph(expected: Callable[..., tuple[torch.Tensor]], name: str = "") -> Graph:
    return Graph(name, torch.nn.Identity(), ("x",), ("y",), lambda *sizes: (torch.ones(*sizes),), expected)


@pytest.mark.parametrize(
    ("model", "file", "equal"),
    [
        (1.0, math.nan, False),
        (1.0, math.inf, False),
        (math.nan, math.nan, False),
        (-math.inf, -math.inf, True),  # a symbol that cannot be written
        (-math.inf, 1.0, False),
    ],
)
def test_outputs_that_are_not_finite_are_compared_too(model: float, file: float, equal: bool) -> None:
    graph = _graph(lambda x: (torch.full_like(x, model),))
    with contextlib.nullcontext() if equal else pytest.raises(LabError, match=r"m.pt2: its outputs"):
        assert exporting._check(graph, lambda inputs: [torch.full_like(inputs[0], file)], Path("m.pt2")) == 0


def test_an_infinite_output_does_not_hide_differences_of_others() -> None:
    def expected(x: torch.Tensor, scale: float = 1) -> tuple[torch.Tensor]:
        return (torch.cat([torch.full_like(x, -math.inf), scale * x], -1),)

    with pytest.raises(LabError, match=r"differ from the model's by up to 1"):
        exporting._check(_graph(expected), lambda inputs: expected(*inputs, scale=2), Path("m.pt2"))


def test_differences_are_relative_to_the_largest_output_and_shapes_must_agree() -> None:
    graph = _graph(lambda x: (torch.cat([x, 1e5 * x], -1),))
    run = graph.expected
    small = exporting._check(graph, lambda inputs: [run(*inputs)[0] + 1], Path("m.pt2"))
    assert small == pytest.approx(1e-5)
    with pytest.raises(LabError, match=r"m.pt2: y has the shape \[1, 1, 2\], not \[1, 2\]$"):
        exporting._check(graph, lambda inputs: [run(*inputs)[0].unsqueeze(0)], Path("m.pt2"))


@pytest.mark.parametrize("suffix", [".pt2", ".onnx"])
def test_a_file_that_cannot_be_written_is_told_before_any_work(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.delattr(exporting, "_converted")
    with pytest.raises(LabError, match="cannot write"):
        export(
            _regression(),
            RegressionCodec(["a", "b"], "y", [0.0] * 3, [1.0] * 3),
            tmp_path / f"file/x{suffix}",
        )
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
