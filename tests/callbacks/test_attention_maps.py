"""What the callback logs of each attention: numbers, records, and pictures of these."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from attention_lab.callbacks import AttentionMaps, attention_maps
from attention_lab.callbacks.attention_maps import MEASURES
from attention_lab.loggers import TensorBoardRunLogger
from attention_lab.tasks import Observation
from attention_lab.tensorboard_plugin import AttentionRecord, decode


def test_numbers_of_each_head() -> None:
    spread = torch.full((3, 3), 1 / 3)
    weights = torch.stack([torch.eye(3), torch.eye(3).flip(0), spread])
    assert MEASURES["weights/heads/entropy"](weights).tolist() == pytest.approx([0, 0, math.log(3)])
    assert MEASURES["weights/heads/monotonicity"](weights).tolist() == [1, 0, 1]
    assert MEASURES["weights/heads/monotonicity"](weights[:, :1]).isnan().all()  # one row does not move


def _observation(weights: torch.Tensor) -> Observation:
    records = (
        AttentionRecord(
            weights=shown.numpy(),
            mask=(shown > 0).numpy(),
            queries=["x", "y", "</s>"],
            keys=["a", "b"],
            module=module,
            input="ab",
            output="x y",
            gold=np.array([0, 1, -1]),
        )
        for module, shown in (("encoder.layers.0.attention", weights), ("decoder.attention", weights[:1]))
    )
    return Observation("ab", "x y", "", tuple(records))


def test_a_record_of_each_attention_stands_beside_its_picture(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    weights = torch.softmax(torch.randn(2, 3, 2), -1).tril(1)
    seen: list[Any] = [_observation(weights), _observation(weights.flip(0))]
    monkeypatch.setattr(attention_maps, "observe_probe", lambda *_: seen)
    logger = TensorBoardRunLogger(str(tmp_path))
    trainer: Any = SimpleNamespace(
        sanity_checking=False, loggers=[logger], is_global_zero=True, global_step=0, callback_metrics={}
    )
    callback = AttentionMaps(examples=2)
    for step in (0, 7):
        trainer.global_step = step
        callback.on_validation_end(trainer, pl.LightningModule())
    logger.close()
    events = EventAccumulator(str(tmp_path), {"tensors": 0, "images": 0}).Reload()
    tags = sorted(events.PluginTagToContent("attention_lab"))
    assert tags == [f"example {n}/{place}" for n in (1, 2) for place in ("decoder", "encoder layer 1")]
    assert [tag.removeprefix("weights/") for tag in sorted(events.Tags()["images"])] == tags
    written = events.Tensors("example 2/encoder layer 1")
    assert [event.step for event in written] == [0, 7]
    record = decode(*written[0].tensor_proto.string_val)
    assert np.allclose(record.weights, weights.flip(0), atol=1e-5)
    assert np.array_equal(record.attended, weights.flip(0) > 0)
    assert (record.queries, record.keys) == (["x", "y", "</s>"], ["a", "b"])
    assert (record.module, record.input, record.output) == ("encoder.layers.0.attention", "ab", "x y")
    assert record.gold is not None and record.gold.tolist() == [0, 1, -1]


def test_modules_with_names_alike_are_logged_under_their_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The readable name of both is "layer 1": one replaced the other."""
    modules = {"blocks.0.attention": torch.eye(2), "layers.0.attention": torch.eye(2).flip(0)}
    records = [
        AttentionRecord(one.unsqueeze(0).numpy(), ["x", "y"], ["a", "b"], module=module)
        for module, one in modules.items()
    ]
    monkeypatch.setattr(attention_maps, "observe_probe", lambda *_: [Observation("", "", "", tuple(records))])
    logger = TensorBoardRunLogger(str(tmp_path))
    trainer: Any = SimpleNamespace(
        sanity_checking=False, loggers=[logger], is_global_zero=True, global_step=0, callback_metrics={}
    )
    AttentionMaps(examples=1).on_validation_end(trainer, pl.LightningModule())
    logger.close()
    events = EventAccumulator(str(tmp_path), {"tensors": 0, "images": 0}).Reload()
    tags = [f"example 1/{module}" for module in modules]
    assert sorted(events.PluginTagToContent("attention_lab")) == tags
    assert sorted(events.Tags()["images"]) == [f"weights/{tag}" for tag in tags]
    monotonicity = {module: f"weights/heads/monotonicity/{module} head 1" for module in modules}
    found = {module: events.Scalars(tag)[0].value for module, tag in monotonicity.items()}
    assert found == {"blocks.0.attention": 1.0, "layers.0.attention": 0.0}


def test_the_steps_of_a_run_share_a_scale_which_only_grows(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    drawn: list[float] = []
    original = attention_maps.record_thumbnails
    monkeypatch.setattr(
        attention_maps, "record_thumbnails", lambda *given: drawn.append(given[-1]) or original(*given)
    )
    logger = TensorBoardRunLogger(str(tmp_path))
    trainer: Any = SimpleNamespace(
        sanity_checking=False, loggers=[logger], is_global_zero=True, global_step=0, callback_metrics={}
    )
    callback = AttentionMaps(examples=1)
    for largest in (0.15, 0.05, 0.3, 0.9, 0.1):
        seen = [_observation(torch.full((2, 3, 2), largest))]
        monkeypatch.setattr(attention_maps, "observe_probe", lambda *_, seen=seen: seen)
        callback.on_validation_end(trainer, pl.LightningModule())
        resumed = AttentionMaps(examples=1)
        resumed.load_state_dict(callback.state_dict())
        callback = resumed
    logger.close()
    assert drawn == [0.16, 0.16, 0.16, 0.16, 0.3, 0.3, 1.0, 1.0, 1.0, 1.0]  # of two attentions each
    callback.load_state_dict({"validations": 1, "tops": {"decoder": 7.0, "encoder layer 1": "x"}})
    assert callback.tops == {}
