"""The graph classifier: which nodes attend to which, and that nodes have no order."""

import pytest
import torch
from toys import exact_toy

from attention_lab.attention import Additive, ScaledDot, adjacency_mask, recording
from attention_lab.errors import LabError
from attention_lab.models import GraphClassifier
from attention_lab.sizes import GraphSizes

PATH = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])  # 0 - 1 - 2 - 3 - 4


def _classifier(score: type = ScaledDot, directed: bool = False, **options: object) -> GraphClassifier:
    sizes = GraphSizes(classes=3, features=4, directed=directed)
    return exact_toy(GraphClassifier, score, sizes, **options)


def _features() -> torch.Tensor:
    return torch.randn(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("score", [ScaledDot, Additive])
def test_permuting_the_nodes_permutes_the_outputs(score: type) -> None:
    model, features = _classifier(score), _features()
    order = torch.tensor([3, 0, 4, 1, 2])
    permuted = model(features[order], order.argsort()[PATH])
    torch.testing.assert_close(permuted, model(features, PATH)[order])
    assert not torch.allclose(permuted, model(features, PATH), atol=1e-3)


@pytest.mark.parametrize(("layers", "reached"), [(1, [0, 1]), (2, [0, 1, 2]), (3, [0, 1, 2, 3])])
def test_every_layer_sees_one_edge_further(layers: int, reached: list[int]) -> None:
    model, features = _classifier(layers=layers), _features()
    changed = features.clone()
    changed[0] *= -1
    difference = (model(features, PATH) - model(changed, PATH)).abs().amax(-1)
    assert difference.gt(1e-9).nonzero().flatten().tolist() == reached


def test_a_directed_edge_carries_one_way() -> None:
    model, features = _classifier(directed=True), _features()
    changed = features.clone()
    changed[2] *= -1
    difference = (model(features, PATH) - model(changed, PATH)).abs().amax(-1)
    assert difference.gt(1e-9).nonzero().flatten().tolist() == [2, 3, 4]


@pytest.mark.parametrize("self_loops", [True, False])
def test_the_mask_of_every_layer_and_head_is_the_adjacency(self_loops: bool) -> None:
    model = _classifier(self_loops=self_loops)
    with recording(model) as weights:
        model(_features(), PATH)
    adjacency = adjacency_mask(PATH, 5, self_loops=self_loops)
    assert list(weights) == [f"layers.{layer}.attention.attention" for layer in range(2)]
    for name in weights:
        assert weights[name].shape == (1, 2, 5, 5)
        assert weights.mask(name).equal(adjacency.expand(1, 2, 5, 5))
        assert (weights[name] > 0).equal(adjacency.expand(1, 2, 5, 5))


def test_a_node_without_edges_is_classified_by_itself() -> None:
    model, features = _classifier(self_loops=False).train(), _features()
    alone = torch.tensor([[0, 1], [1, 2]])
    logits = model(features, alone)
    logits.sum().backward()
    assert logits.isfinite().all()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    model.eval()
    changed = features.clone()
    changed[:3] += 1
    assert model(features, alone)[3:].equal(model(changed, alone)[3:])


def test_a_size_below_1_is_refused() -> None:
    with pytest.raises(LabError, match=r"model\.layers must be at least 1, got 0"):
        _classifier(layers=0)
