"""A Transformer attends within each side and between them: which labels are shown, and which is scored."""

import pytest
import torch
from toys import toy

from attention_lab.attention import Additive, ScaledDot, recording
from attention_lab.data import DigitStrips, Reverse
from attention_lab.metrics import AlignmentMeasures
from attention_lab.models import ImageToSequence, Transformer
from attention_lab.tasks import Transduction, sequence_generation


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


def test_of_a_long_output_for_an_image_the_first_symbols_are_observed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A model that never ends writes three symbols for each pixel, each with a weight for every cell."""
    strips = DigitStrips(train_size=1, validation_size=2, test_size=1)
    strips.setup()
    task = Transduction(toy(ImageToSequence, Additive, strips.codec.sizes), strips.codec).eval()
    batch = strips.probe(2)
    written = torch.full((2, 9), strips.codec.target.vocabulary.ids(["7"])[0])
    monkeypatch.setattr(task, "decode", lambda _: written)
    every = task.observe(batch)
    assert [len(one.records[0].queries) for one in every] == [9, 9]
    cells = max(len(one.records[0].keys) for one in every)
    monkeypatch.setattr(sequence_generation, "MOST_WEIGHTS", 4 * cells + 1)
    for few, all_of_them in zip(task.observe(batch), every, strict=True):
        assert (few.output, list(few.records[0].queries)) == ("7" * 9, ["7"] * 4)
        torch.testing.assert_close(few.records[0].weights, all_of_them.records[0].weights[:, :4])


def test_only_the_first_symbols_are_observed_of_the_outputs_of_very_long_texts(
    data: Reverse, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, batch = _task(data), data.probe(2)
    written = torch.full((2, 9), data.codec.target.vocabulary.ids(data.codec.target.vocabulary.symbols)[0])
    monkeypatch.setattr(task, "decode", lambda _: written)
    every = task.observe(batch)
    assert [len(one.records[-1].queries) for one in every] == [9, 9]
    monkeypatch.setattr(sequence_generation, "MOST_WEIGHTS_OF_TEXT", 4 * batch.source.shape[1] + 1)
    for few, all_of_them in zip(task.observe(batch), every, strict=True):
        assert (few.output, len(few.records[-1].queries)) == (all_of_them.output, 4)
        torch.testing.assert_close(few.records[-1].weights, all_of_them.records[-1].weights[:, :4])


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
