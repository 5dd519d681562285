"""Models in safetensors files predict the same as before, and a hostile file is rejected in one line."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from saved_models import MECHANISM, transduction
from torch import Tensor
from toys import toy

import attention_lab
from attention_lab.errors import LabError
from attention_lab.inference.safetensors_files import save
from attention_lab.inference.trained_model import TrainedModel
from attention_lab.models import Ensemble, Seq2Seq
from attention_lab.tasks import Transduction

WORDS = ["hello", "a", "attention", "o'clock", "zzz"]
MODELS: dict[str, Any] = {
    "seq2seq": {"_target_": "attention_lab.models.Seq2Seq", "embedding_size": 6, "hidden_size": 8},
    "bahdanau": {
        "_target_": "attention_lab.models.Seq2Seq",
        "embedding_size": 6,
        "hidden_size": 8,
        "cell": "gru",
        "wiring": "bahdanau",
        "layers": 2,
    },
    "transformer": {
        "_target_": "attention_lab.models.Transformer",
        "d_model": 8,
        "heads": 2,
        "layers": 1,
        "feedforward": 12,
        "positions": "sinusoidal",
    },
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    TrainedModel(transduction(beam_size=3), score="loss 0.5").export(tmp_path / "model.safetensors")
    return tmp_path


@pytest.mark.sampled(2, rest="long")
@pytest.mark.parametrize("name", MODELS)
def test_a_saved_model_predicts_as_before(name: str, tmp_path: Path) -> None:
    scoring = {"_target_": "attention_lab.attention.ScaledDot", "_partial_": True}
    mechanism = MECHANISM if name != "transformer" else {**MECHANISM, "scoring": scoring}
    task = transduction(MODELS[name], mechanism, beam_size=3, length_penalty=0.5)
    files = TrainedModel(task).export(tmp_path / "x.safetensors")
    assert files == [tmp_path / "x.safetensors", tmp_path / "x.json"]
    before = torch.get_rng_state()
    loaded = attention_lab.pretrained(tmp_path / "x.safetensors")
    assert torch.equal(before, torch.get_rng_state())
    task.model.load_state_dict({key: value.half() for key, value in task.model.state_dict().items()})
    original = TrainedModel(task)
    assert len(set(original.predict(WORDS))) > 2
    assert loaded.predict(WORDS) == original.predict(WORDS)
    assert loaded.predict_n_best(WORDS, 2) == original.predict_n_best(WORDS, 2)
    (seen,), (known,) = loaded.observe(WORDS[:1]), original.observe(WORDS[:1])
    assert all(torch.equal(seen.weights[key], known.weights[key]) for key in known.weights)
    again = loaded.export(tmp_path / "again.safetensors")
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in files]


def test_the_files_are_small_and_say_where_the_model_is_from(folder: Path) -> None:
    loaded = attention_lab.pretrained(folder)
    count = sum(parameter.numel() for parameter in loaded.model.parameters())
    assert (folder / "model.safetensors").stat().st_size < 2 * count + 4000
    assert repr(loaded).splitlines()[-2:] == [
        "  score   loss 0.5",
        f"  file    {folder / 'model.safetensors'}",
    ]
    about = json.loads((folder / "model.json").read_text())
    assert about["decoding"] == {"beam_size": 3, "length_penalty": 0.0, "ctc_rescoring": 0.0}
    assert "data" not in about  # which may have paths of the author's files


Alter = Callable[[dict[str, Any]], None]


def _put(*path: str, value: Any) -> Alter:
    def alter(about: dict[str, Any]) -> None:
        for key in path[:-1]:
            about = about[key]
        about[path[-1]] = value

    return alter


CONFIGURATIONS: dict[str, tuple[Alter, str]] = {
    "version": (_put("version", value=2), "does not describe a model of attention-lab, version 1"),
    "missing": (lambda about: about.pop("pooling"), r"model.json: pooling is missing"),
    "code": (_put("scoring", "_target_", value="os.system"), "names 'os.system', which is not part of"),
    "imported": (_put("model", "_target_", value="attention_lab.models.seq2seq.F"), "not part of"),
    "subpackage": (
        _put("model", "_target_", value="attention_lab.attention.Dot"),
        "as its model, which is not in attention_lab.models: it is not loaded",
    ),
    "no class": (_put("window", value={}), "for its window"),
    "not a part": (_put("window", value=[3]), "for its window"),
    "interpolation": (_put("model", "cell", value="${oc.env:HOME}"), "not a plain value"),
    "long": (_put("model", "cell", value="x" * 5000), r"model\.cell=x{88}… is unknown: choose lstm or gru$"),
    "nested": (_put("model", "cell", value={"_target_": "builtins.eval"}), "not part of attention-lab"),
    "type": (_put("model", "hidden_size", value="8"), "it must be a whole number"),
    "large": (_put("model", "hidden_size", value=9_999_998), "there are far fewer"),
    "larger": (_put("model", "hidden_size", value=10**12), "choose at most"),
    "layers": (_put("model", "layers", value=10**7), "there are far fewer"),
    "other size": (_put("model", "hidden_size", value=10), r"is torch.float16 \[.*\], not \["),
    "option": (_put("model", "colour", value=1), "colour"),
    "classifier": (_put("model", "_target_", value="attention_lab.models.MultiHeadClassifier"), "cannot be"),
    "beams": (_put("decoding", "beam_size", value=10**6), "must be from 1 to 1000"),
    "no beams": (_put("decoding", "beam_size", value=True), "needs a beam_size that is a whole number"),
    "no penalty": (_put("decoding", "length_penalty", value="1"), "a length_penalty such as 1.0"),
    "penalty": (
        _put("decoding", "length_penalty", value=1e300),
        "length_penalty must be from -10 to 10, got 1e.300",
    ),
    "decoding": (_put("decoding", value=3), "cannot be read"),
    "rescoring": (_put("decoding", "ctc_rescoring", value=0.3), "needs the CTC output of an encoder"),
    "much rescoring": (_put("decoding", "ctc_rescoring", value=2), "must be from 0 to 1"),
    "no rescoring": (
        _put("decoding", "ctc_rescoring", value="0.2"),
        "needs a ctc_rescoring that is a number",
    ),
    "not a number": (_put("decoding", "ctc_rescoring", value=float("nan")), "must be from 0 to 1"),
    "codec": (_put("codec", value={"kind": "regression", "inputs": ["a"], "target": "b"}), "cannot be read"),
    "codec kind": (_put("codec", "kind", value="code"), "unknown kind of codec 'code'"),
    "symbols": (_put("codec", "target", "symbols", value=None), "cannot be read"),
    "more symbols": (
        _put("codec", "target", "symbols", value=["A"] * 50),
        "the weights do not fit the model",
    ),
}


def test_rescoring_is_kept_and_an_earlier_file_has_none(tmp_path: Path) -> None:
    model = {**MODELS["seq2seq"], "ctc_frames": 3}
    task = transduction(model, beam_size=4, ctc=0.3, ctc_rescoring=0.9)
    TrainedModel(task).export(tmp_path / "model.safetensors")
    assert attention_lab.pretrained(tmp_path).predict_n_best(WORDS, 4) == _near(task, WORDS)
    path = tmp_path / "model.json"
    about = json.loads(path.read_text())
    del about["decoding"]["ctc_rescoring"]
    path.write_text(json.dumps(about))
    assert attention_lab.pretrained(tmp_path).task.ctc_rescoring == 0


def _near(task: Any, words: list[str]) -> list[list[tuple[str, Any]]]:
    """The outputs with scores that float16 weights may change a little."""
    found = TrainedModel(task).predict_n_best(words, 4)
    return [[(text, pytest.approx(score, abs=0.05)) for text, score in one] for one in found]


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_hostile_configuration_is_rejected(name: str, folder: Path) -> None:
    alter, said = CONFIGURATIONS[name]
    path = folder / "model.json"
    about = json.loads(path.read_text())
    alter(about)
    path.write_text(json.dumps(about))
    with pytest.raises(LabError, match=said) as error:
        attention_lab.pretrained(folder)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("option", ["hidden_size", "cell", "_target_", "colour\n\x1b[2J"])
def test_a_message_has_one_line_of_visible_characters(option: str, folder: Path) -> None:
    path = folder / "model.json"
    about = json.loads(path.read_text())
    about["model"][option] = "\x1b[2J\n\u202e" + 100_000 * "x"
    path.write_text(json.dumps(about))
    with pytest.raises(LabError, match=r"model\.json") as error:
        attention_lab.pretrained(folder)
    assert len(str(error.value)) <= 4000
    assert str(error.value).isprintable()


@pytest.mark.parametrize("content", ["", "[]", "{", "[" * 100_000, '"\\ud800"', "NaN"])
def test_a_configuration_that_is_no_object_is_rejected(content: str, folder: Path) -> None:
    (folder / "model.json").write_text(content)
    with pytest.raises(LabError, match=r"model\.json") as error:
        attention_lab.pretrained(folder)
    assert "\n" not in str(error.value)


def _only(name: str, change: Callable[[Tensor], Tensor]) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
    return lambda weights: weights | {name: change(weights[name]).contiguous()}


BIAS = "decoder.output.bias"
WEIGHTS: dict[str, tuple[Callable[[dict[str, Tensor]], dict[str, Tensor]], str]] = {
    "shape": (_only(BIAS, lambda x: x[:-1]), r"decoder.output.bias is torch.float16 \[13\], not \[14\]"),
    "kind": (_only(BIAS, Tensor.long), "decoder.output.bias is torch.int64"),
    "complex": (_only(BIAS, lambda x: x.to(torch.complex64)), "decoder.output.bias is torch.complex64"),
    "infinite": (_only(BIAS, lambda x: x / 0), "decoder.output.bias are not finite"),
    "fewer": (lambda weights: {BIAS: weights[BIAS]}, "which differs in decoder.attention"),
    "more": (lambda weights: weights | {"x": torch.ones(3)}, "which differs in x"),
    "none": (lambda weights: {}, "do not fit the model"),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_that_do_not_fit_are_rejected(name: str, folder: Path) -> None:
    alter, said = WEIGHTS[name]
    path = folder / "model.safetensors"
    safetensors.torch.save_file(alter(safetensors.torch.load_file(path)), path)
    with pytest.raises(LabError, match=said) as error:
        attention_lab.pretrained(folder)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("where", [0, 4, 9, 200])
def test_a_damaged_file_is_named(where: int, folder: Path) -> None:
    path = folder / "model.safetensors"
    content = bytearray(path.read_bytes())
    for damaged in (content[: where + 1], content[:where] + b"\xff" * 8 + content[where + 8 :]):
        path.write_bytes(damaged)
        with pytest.raises(LabError, match=r"model\.(safetensors|json)") as error:
            attention_lab.pretrained(folder)
        assert "\n" not in str(error.value)


def test_a_header_of_very_many_tensors_is_rejected_before_it_is_parsed(folder: Path) -> None:
    empty = b',"%d":{"dtype":"F16","shape":[0],"data_offsets":[0,0]}'
    header = (b"{" + b"".join(empty % number for number in range(80_000))[1:] + b"}").ljust((4 << 20) + 1)
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(LabError, match=r"model.safetensors: its header is larger than 4 MiB$"):
        attention_lab.pretrained(folder)


def test_a_missing_file_and_a_pipe_are_named(folder: Path) -> None:
    with pytest.raises(
        LabError, match=r"neither a model of the package .*nor a folder with model.safetensors"
    ):
        attention_lab.pretrained("nothing")
    (folder / "model.json").unlink()
    with pytest.raises(LabError, match=r"model\.json is missing"):
        attention_lab.pretrained(folder)
    (folder / "model.safetensors").unlink()
    os.mkfifo(folder / "model.safetensors")
    with pytest.raises(LabError, match="it is a pipe, not a regular file"):
        attention_lab.pretrained(folder)


def test_models_that_cannot_be_saved_are_rejected_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "m.safetensors"
    task = transduction()
    with pytest.raises(LabError, match=r"is only for sequence-to-sequence models: choose export=model.pt2"):
        save(torch.nn.Identity(), file)
    with pytest.raises(LabError, match="was not built from a configuration"):
        save(Transduction(toy(Seq2Seq), task.codec), file)
    with torch.no_grad():
        task.model.get_parameter(BIAS)[0] = 1e6
    with pytest.raises(LabError, match=r"decoder.output.bias has weights that are too large for float16"):
        save(task, file)
    with torch.no_grad():
        task.model.get_parameter(BIAS)[0] = torch.nan
    with pytest.raises(LabError, match=r"decoder.output.bias has weights that are NaN or infinite"):
        save(task, file)
    task.model = Ensemble([task.model])
    with pytest.raises(LabError, match="an ensemble cannot be exported: export each of its checkpoints"):
        save(task, file)
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_is_read_by_load(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    for path in (tmp_path, tmp_path / "checkpoints" / "best.ckpt"):
        with pytest.raises(LabError, match=r"for a checkpoint or a run's folder, use attention_lab\.load$"):
            attention_lab.pretrained(path)
