"""A Transformer attends within each side and between them: which labels are shown, and which is scored."""

import pytest
import torch
from toys import toy

from attention_lab.attention import ScaledDot, recording
from attention_lab.data import Reverse
from attention_lab.metrics import AlignmentMeasures
from attention_lab.models import Transformer
from attention_lab.tasks import Transduction


@pytest.fixture
def data() -> Reverse:
    data = Reverse(train_size=1, validation_size=3, test_size=1)
    data.setup()
    return data


def _task(data: Reverse) -> Transduction:
    return Transduction(toy(Transformer, ScaledDot, data.codec.sizes), data.codec).eval()


def test_an_observation_labels_each_attention_by_its_sides(data: Reverse) -> None:
    task = _task(data)
    batch = data.codec.encode(["abc", "a"])
    for seen, source in zip(task.observe(batch), (["a", "b", "c", "</s>"], ["a", "</s>"]), strict=True):
        written, keys = seen.labels("decoder.layers.0.cross.attention")
        assert len(written) > 2
        assert keys == source
        assert len(seen.weights) == 8
        for name, heads in seen.weights.items():
            rows, columns = seen.labels(name)
            if name.startswith("encoder"):
                assert (rows, columns) == (source, source)
            elif "self" in name:
                assert (rows, columns) == (written, ["<s>", *written[:-1]])
            else:
                assert (rows, columns) == (written, source)
            assert heads.shape == (2, len(rows), len(columns))
            torch.testing.assert_close(heads.sum(-1), torch.ones(heads.shape[:-1]))


@pytest.mark.parametrize("layer", [0, 2])
def test_the_gold_alignment_judges_the_attention_that_the_model_names(
    layer: int, data: Reverse, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, batch = _task(data), data.probe(3)
    monkeypatch.setattr(task, "log", lambda *_, **__: None)
    name = f"decoder.layers.{layer}.cross.attention"
    assert (task.model.alignment == name) == (layer == 2)
    task.model.alignment = name
    task.validation_step(batch, 0)
    with recording(task.model) as weights:
        task.model(batch.source, batch.source_lengths, batch.target)
    expected = AlignmentMeasures()
    expected.update(weights[name], batch.alignment)
    assert task.alignments["validation"].take() == expected.take()
