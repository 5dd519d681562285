"""Every theorem: its finding holds, it can be repeated, and it fails when the claim is broken on purpose."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from attention_lab.attention import Band, Dot, Gaussian, Laplacian, Mechanism, ScaledDot
from attention_lab.attention.fast.linear import linear_step
from attention_lab.attention.pooling import Hard
from attention_lab.errors import LabError
from attention_lab.theorems import (
    ConvolutionEquivalence,
    EarlyInformation,
    Finding,
    GraphEquivalence,
    HardGradients,
    KernelEquivalence,
    LinearRecurrence,
    ReceptiveField,
    Scaling,
    Theorem,
    early_information,
    gradients,
    graph,
    latent_key,
    recurrence,
)
from attention_lab.theorems.finding import largest_difference
from attention_lab.theorems.kernels import PAIRS, Pair

SMALL: dict[str, Callable[[], Theorem]] = {
    "convolution": lambda: ConvolutionEquivalence(kernels=(1, 3), grid=(5, 4), sweep=(1, 10)),
    "scaling": lambda: Scaling(sizes=(4, 64, 256), draws=300),
    "recurrence": lambda: LinearRecurrence(length=70, size=4, batch=2, lengths=(8, 64), repeats=3),
    "graph": lambda: GraphEquivalence(("1-2", "2-10", "1-3"), random=((10, 0.2),), size=3, heads=2),
    "kernels": lambda: KernelEquivalence(samples=20, queries=10, widths=(1.0, 3.0)),
    "gradients": lambda: HardGradients(repetitions=10000, samples=(1, 4), temperatures=(0.5, 2.0)),
    "early": lambda: EarlyInformation(4, 30, 12, (), steps=60, learning_rate=0.05, seeds=2),
    "reach": lambda: ReceptiveField(distances=(1, 3, 8), depths=3),
}


class Findings(dict[str, Finding]):
    """The finding of each small theorem, computed when it is first asked for."""

    def __missing__(self, name: str) -> Finding:
        self[name] = SMALL[name]().run(1)
        return self[name]


@pytest.fixture(scope="module")
def findings() -> Findings:
    return Findings()


@pytest.mark.parametrize("name", SMALL)
def test_the_claim_holds(findings: dict[str, Finding], name: str) -> None:
    finding = findings[name]
    assert finding.holds, finding.rows
    assert finding.rows
    assert all(len(row) == len(finding.columns) for row in finding.rows)
    assert all(math.isfinite(cell) for row in finding.rows for cell in row if not isinstance(cell, str))


@pytest.mark.parametrize("name", SMALL)
def test_its_figures_can_be_drawn(findings: dict[str, Finding], name: str) -> None:
    for figure in findings[name].figures:
        image = figure.draw()
        assert min(image.size) > 200
        assert len(image.getcolors(maxcolors=1 << 20) or range(100)) > 4


@pytest.mark.parametrize("name", ["convolution", "scaling", "graph", "kernels", "reach"])
def test_a_seed_gives_the_same_numbers_again(findings: dict[str, Finding], name: str) -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    assert SMALL[name]().run(1).rows == findings[name].rows
    assert torch.rand(1) == expected, "random numbers outside of it are left alone"


def test_blurred_heads_are_no_convolution() -> None:
    assert not ConvolutionEquivalence(kernels=(3,), grid=(5, 4), sweep=(1, 2), sharpness=4.0).run(1).holds


def test_every_padding_is_its_own_convolution(findings: dict[str, Finding]) -> None:
    assert {row[1] for row in findings["convolution"].rows} == {
        "valid",
        "replicate",
        "zeros",
        "circular",
        "full",
    }


def test_without_the_scale_or_with_a_wrong_one_the_claim_fails() -> None:
    class Halved(ScaledDot):
        def features(self, query: Tensor, keys: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
            return query * (2 / self.key_size), keys

    for wrong in (Dot, Halved):
        assert not Scaling(sizes=(4, 64, 256), draws=300, scaled=wrong).run(1).holds


def test_a_state_that_forgets_is_another_function(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(query: Tensor, key: Tensor, value: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        return linear_step(query, key, value, None if state is None else state * 0.999)

    monkeypatch.setattr(recurrence, "linear_step", forgetful)
    finding = SMALL["recurrence"]().run(1)
    assert not finding.holds
    assert float(finding.rows[2][1]) < 1e-10, "the two forms without a state still agree"


def test_a_missing_edge_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    complete = graph._directed
    monkeypatch.setattr(graph, "_directed", lambda one: complete(one)[:, 1:])
    assert not SMALL["graph"]().run(1).holds


@pytest.mark.parametrize("edges", ["1-2", None, 5, [], [12], ["12"], ["1-"], ["-2"], ["1-2-3"], [[1, 2]]])
def test_what_is_no_edge_is_refused(edges: Any) -> None:
    with pytest.raises(LabError, match=r"theorem\.edges.*give pairs of nodes") as refused:
        GraphEquivalence(edges)
    assert "\n" not in str(refused.value)


def test_nodes_stand_in_the_order_of_their_numbers() -> None:
    assert GraphEquivalence(("10-2", "1 - 2")).names == ["1", "2", "10"]


def test_the_wrong_kernel_is_seen() -> None:
    for score in (Laplacian, lambda *sizes, width: Gaussian(*sizes, width=2 * width)):
        pairs = {"Gaussian": Pair(PAIRS["Gaussian"].kernel, score)}
        assert not KernelEquivalence(samples=20, queries=10, pairs=pairs).run(1).holds


def test_a_biased_estimator_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def half(samples: int = 1, **options: float) -> Hard:
        return Hard(samples, **{**options, "weight": 0.5})  # type: ignore[arg-type]

    monkeypatch.setattr(gradients, "Hard", half)
    assert not SMALL["gradients"]().run(1).holds


def test_a_baseline_that_looks_at_its_own_draw_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latent_key, "_moving_average", lambda likelihood, decay: 0.5 * likelihood)
    assert not SMALL["gradients"]().run(1).holds


def test_an_attention_that_sees_neighbours_only_has_a_longer_path() -> None:
    narrow = Mechanism(ScaledDot, window=lambda **sizes: Band(**sizes, width=2))
    finding = ReceptiveField(distances=(1, 3, 8), depths=3, mechanism=narrow).run(1)
    assert not finding.holds
    assert [row[1] for row in finding.rows[:3]] == [1, 2, 4]


def test_what_cannot_be_compared_is_never_equal() -> None:
    assert largest_difference(torch.tensor([1.0, math.nan]), torch.tensor([1.0, math.nan])) == math.inf
    assert largest_difference(torch.tensor([1.0, -2.0]), torch.tensor([1.5, -2.0])) == 0.5
    with pytest.raises(ValueError, match="cannot be compared"):
        largest_difference(torch.zeros(2), torch.zeros(2, 1))


def test_nothing_is_lost_where_both_hand_on_the_last_state(monkeypatch: pytest.MonkeyPatch) -> None:
    model = EarlyInformation._model
    monkeypatch.setattr(
        EarlyInformation, "_model", lambda self, arm: model(self, arm._replace(memory="final"))
    )
    finding = EarlyInformation(4, 5, 6, (), steps=2, seeds=2).run(1)
    assert not finding.holds
    assert "backwards 0.00 ± 0.00, forwards 0.00 ± 0.00" in finding.notes[0]


@pytest.mark.parametrize("order", early_information.ORDERS)
def test_an_accuracy_stands_at_the_number_of_symbols_read_after_it(
    order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that knows the symbol read first, and nothing else."""

    def knows_the_first(self: EarlyInformation, model: object, source: Tensor, target: Tensor) -> Tensor:
        right = torch.nn.functional.one_hot(target, 10).float()
        place = -1 if order == "backwards" else 0
        assert torch.equal(target[:, place], source[:, 0])
        only = torch.zeros_like(right)
        only[:, place] = right[:, place]
        return only  # elsewhere the likeliest is id 0, which is no symbol

    monkeypatch.setattr(EarlyInformation, "_logits", knows_the_first)
    monkeypatch.setattr(EarlyInformation, "_train", lambda *a: None)
    found = EarlyInformation(6, 6)._accuracies(early_information.Arm(order, "final", 4), 1)
    assert found == [0, 0, 0, 0, 0, 1]


def test_the_interval_of_a_mean_over_seeds() -> None:
    """By hand: t = 4.3027 for two degrees of freedom, standard deviation 1."""
    found = early_information.mean_interval([1.0, 2.0, 3.0])
    assert found.mean == 2
    assert found.half == pytest.approx(4.302653 / math.sqrt(3))


@pytest.mark.parametrize(
    "make",
    [
        lambda: ReceptiveField(kernel_size=4),
        lambda: Scaling(sizes=(8,)),
        lambda: EarlyInformation(length=3),
        lambda: EarlyInformation(others=(0,)),
        lambda: EarlyInformation(learning_rate=math.nan),
        lambda: EarlyInformation(seeds=1),
    ],
)
def test_an_option_out_of_range_is_refused(make: Callable[[], Theorem]) -> None:
    with pytest.raises(LabError, match="theorem"):
        make()


def test_an_edge_list_gives_a_lone_node_nothing() -> None:
    lone = graph.Graph("lone", torch.tensor([[0], [1]]), 3, self_loops=False)
    attention = Mechanism(ScaledDot)(2, 2, 1).double()
    inputs = [torch.randn(1, 3, 2, dtype=torch.float64) for _ in range(3)]
    for form in (graph.by_mask, graph.by_edges):
        context, weights = form(attention, inputs, lone)
        assert torch.equal(context[0, :2], inputs[2][0, [1, 0]]), "each of a pair sees the other alone"
        assert not context[0, 2].any()
        assert torch.equal(weights[0], torch.tensor([[0, 1, 0], [1, 0, 0], [0, 0, 0]], dtype=torch.float64))
