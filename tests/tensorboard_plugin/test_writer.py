"""What `add_attention` takes, and what it leaves in the log."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.compat.proto.summary_pb2 import DATA_CLASS_BLOB_SEQUENCE
from torch.utils.tensorboard import SummaryWriter

from attention_lab.tensorboard_plugin import AttentionRecord, add_attention, decode

WEIGHTS = torch.tensor([[[0.25, 0.75], [1, 0], [0.5, 0.5]]])
QUERIES, KEYS = ["x", "", "日本語"], ["<b>", "\x00"]


def _written(folder: Path) -> list[tuple[int, str, AttentionRecord]]:
    found = []
    for path in folder.glob("events*"):
        for event in EventFileLoader(str(path)).Load():
            for value in event.summary.value:
                assert value.metadata.plugin_data.plugin_name == "attention_lab"
                assert value.metadata.data_class == DATA_CLASS_BLOB_SEQUENCE
                found.append((event.step, value.tag, decode(*value.tensor.string_val)))
    return found


def _add(folder: Path, *given: Any, **options: Any) -> AttentionRecord:
    with SummaryWriter(folder) as writer:
        add_attention(writer, "example 1/decoder", *(given or (WEIGHTS, QUERIES, KEYS, 0)), **options)
    ((step, tag, record),) = _written(folder)
    assert (step, tag) == (0, "example 1/decoder")
    return record


def test_everything_is_written(tmp_path: Path) -> None:
    mask = torch.tensor([[True, True], [True, False], [True, True]])
    texts = {"module": "decoder.attention", "input": "a b", "output": "x"}
    record = _add(tmp_path, gold=torch.tensor([0, 1, -1]), mask=mask, **texts)
    assert np.allclose(record.weights, WEIGHTS.numpy(), atol=1e-5)
    assert (record.queries, record.keys) == (QUERIES, KEYS)
    assert (record.module, record.input, record.output) == tuple(texts.values())
    assert record.gold is not None and record.gold.tolist() == [0, 1, -1]
    assert record.mask is not None and record.mask.tolist() == [mask.tolist()]


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn]
)
def test_tensors_of_any_float_type(dtype: torch.dtype, tmp_path: Path) -> None:
    weights = WEIGHTS.clone().to(dtype)
    if dtype != torch.float8_e4m3fn:
        weights.requires_grad_()
    assert np.allclose(_add(tmp_path, weights, QUERIES, KEYS, 0).weights, WEIGHTS.numpy(), atol=1e-5)


def test_weights_that_are_clipped_are_warned_of_once(tmp_path: Path) -> None:
    nan = torch.tensor([[[float("nan"), 0]]])  # not finite, which the tab shows, but within the range
    with SummaryWriter(tmp_path) as writer, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        hidden = {"mask": WEIGHTS == 1}
        for step in range(3):
            add_attention(writer, "scores", 9 * WEIGHTS - 4 + nan, QUERIES, KEYS, step)
            add_attention(writer, "weights", 1.001 * WEIGHTS + nan, QUERIES, KEYS, step)
            add_attention(writer, "masked", WEIGHTS.where(WEIGHTS == 1, -1e9), QUERIES, KEYS, step, **hidden)
    (warning,) = caught
    assert str(warning.message) == (
        "add_attention: weights outside 0 to 1 are clipped: give weights, not the scores before the softmax"
    )
    assert warning.filename == __file__


@pytest.mark.parametrize(
    "weights", [WEIGHTS.numpy(), WEIGHTS.double().numpy(), WEIGHTS.tolist(), WEIGHTS.mT.contiguous().mT]
)
def test_arrays_and_lists(weights: Any, tmp_path: Path) -> None:
    assert np.allclose(
        _add(tmp_path, weights, tuple(QUERIES), np.array(KEYS).tolist(), 0).weights, WEIGHTS, atol=1e-5
    )


def test_a_picture_and_an_axis(tmp_path: Path) -> None:
    ink = torch.tensor([[0, 0, 0.2, 0.2], [1, 1, 2, 2]])
    record = _add(tmp_path / "picture", picture=(ink, 2))
    assert record.kind == "picture" and record.picture is not None
    assert record.picture.pixels.tolist() == [[0, 0, 51, 51], [255, 255, 255, 255]]
    axis = _add(tmp_path / "axis", x=(torch.tensor([0.0, 1, 2]), [0.5, 1.5]))
    assert axis.kind == "regression" and axis.x is not None
    assert [side.tolist() for side in axis.x] == [[0, 1, 2], [0.5, 1.5]]


@pytest.mark.parametrize(
    ("weights", "options", "message"),
    [
        (torch.ones(3, 2), {}, "weights must have"),
        (torch.ones(1, 1, 3, 2), {}, "weights must have"),
        (torch.ones(1, 3, 2, dtype=torch.complex64), {}, "weights is not an array of numbers: complex64"),
        ([[[1, 2], [3]]], {}, "weights is not an array"),
        ("abc", {}, "weights is not an array"),
        (WEIGHTS, {"mask": torch.ones(2, 3, 2)}, "mask .* does not fit"),
        (WEIGHTS, {"gold": [0, 1]}, "gold"),
        (WEIGHTS, {"gold": ["a", "b", "c"]}, "gold is not an array"),
        (WEIGHTS, {"picture": (torch.zeros(3, 3), 1)}, "picture"),
        (WEIGHTS, {"x": ([0], [1])}, "x must be"),
    ],
)
def test_what_does_not_fit_is_one_line(
    weights: Any, options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with SummaryWriter(tmp_path) as writer, pytest.raises(ValueError, match=message) as error:
        add_attention(writer, "tag", weights, QUERIES, KEYS, 0, **options)
    assert "\n" not in str(error.value)
    assert _written(tmp_path) == []


def test_a_file_writer_will_do(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        for step in (0, 5):
            add_attention(
                writer._get_file_writer(), "a\ud800/<b>\x00", WEIGHTS, QUERIES, KEYS, np.int64(step)
            )
        with pytest.raises(TypeError):
            add_attention(writer, "tag", WEIGHTS, QUERIES, KEYS, 0.5)  # type: ignore[arg-type]
    assert [(step, tag) for step, tag, _ in _written(tmp_path)] == [(0, "a?/<b>\x00"), (5, "a?/<b>\x00")]
