import numpy as np
import pytest
import torch
from toys import toy

from attention_lab.attention import ScaledDot, adjacency_mask
from attention_lab.data.graph import Graph8
from attention_lab.errors import LabError
from attention_lab.models import GraphClassifier
from attention_lab.tasks import NodeClassification


def _task() -> tuple[Graph8, NodeClassification]:
    data = Graph8()
    data.setup()
    model = toy(GraphClassifier, ScaledDot, data.sizes, feedforward=8, dropout=0.0)
    return data, NodeClassification(model, data.codec).eval()


def test_the_graph_is_one_example() -> None:
    data, task = _task()
    batch = data.probe(4)
    (observation,) = task.observe(batch)
    assert observation.input == "1 5"
    assert observation.expected == "left, right"
    assert observation.output == ", ".join(task.answer(batch))
    assert len(observation.weights) == 2
    mask = adjacency_mask(batch.edges, 8)
    for record in observation.records:
        assert record.mask is not None and np.array_equal(record.mask, mask.expand(2, 8, 8))
    for name, weights in observation.weights.items():
        assert weights.shape == (2, 8, 8)
        assert observation.labels(name) == (list("12345678"), list("12345678"))
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 8))


def test_without_labels_nothing_is_expected() -> None:
    data, task = _task()
    (observation,) = task.observe(data.codec.encode(["8"]))
    assert (observation.input, observation.expected) == ("8", "")


def test_answers_are_those_of_the_nodes_asked_for() -> None:
    data, task = _task()
    logits = task.model(*data.codec.tensors)
    labels = [data.codec.labels[label] for label in logits.argmax(-1).tolist()]
    assert len(set(labels)) == 2
    assert task.answer(data.codec.encode(list("12345678"))) == labels
    assert task.answer(data.codec.encode(list("831"))) == [labels[7], labels[2], labels[0]]


def test_a_graph_too_large_for_this_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data, task = _task()
    heads = 2 * len(task.model.layers)
    needed = 8 * 8 * 16 * heads
    monkeypatch.setattr("attention_lab.machine.usable_memory", lambda: needed - 1)
    with torch.no_grad():  # the weights of one layer at a time
        assert len(task.answer(data.codec.encode(["8"]))) == 1
    with pytest.raises(LabError, match="all pairs of 8 nodes takes about 0 MiB of memory, but this machine"):
        task.logits(data.probe(4))
    monkeypatch.setattr("attention_lab.machine.usable_memory", lambda: needed)
    assert task.logits(data.probe(4)).shape == (2, 2)


def test_the_labels_of_other_nodes_do_not_enter_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    data, task = _task()
    monkeypatch.setattr(task, "log", lambda *_, **__: None)  # there is no trainer to log to
    batch = data.splits.train[torch.arange(4)]
    loss = task.training_step(batch, 0)
    logits = task.model(batch.features, batch.edges)[[2, 3, 5, 7]]
    expected = torch.nn.functional.cross_entropy(logits, torch.tensor([1, 1, 0, 0]))
    assert loss.item() == expected.item()
