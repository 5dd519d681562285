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
    convolution,
    gradients,
    graph,
    latent_key,
    recurrence,
    scaling,
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


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long) if name == "early" else name for name in SMALL]
)
def test_the_claim_holds(findings: dict[str, Finding], name: str) -> None:
    finding = findings[name]
    assert finding.holds, finding.rows
    assert finding.rows
    assert all(len(row) == len(finding.columns) for row in finding.rows)
    assert all(math.isfinite(cell) for row in finding.rows for cell in row if not isinstance(cell, str))


@pytest.mark.long
@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", SMALL)
def test_its_figures_can_be_drawn(findings: dict[str, Finding], name: str) -> None:
    for figure in findings[name].figures:
        image = figure.draw()
        assert min(image.size) > 200
        assert len(image.getcolors(maxcolors=1 << 20) or range(100)) > 4


@pytest.mark.sampled(2, rest="long")
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
    names = {row[1] for row in findings["convolution"].rows}
    assert names == {"valid", "replicate", "zeros", "circular", "full"}


def test_the_borders_of_a_convolution_by_hand() -> None:
    """For an even kernel the larger margin comes after the picture, as `padding="same"` of PyTorch has it."""
    names = ("valid", "replicate", "zeros", "circular", "full")
    assert [convolution.frame(name, 3)[1:] for name in names] == [(0, 0), (1, 1), (1, 1), (1, 1), (2, 2)]
    assert [convolution.frame(name, 4)[1:] for name in names] == [(0, 0), (1, 2), (1, 2), (1, 2), (3, 3)]


def test_without_the_scale_or_with_a_wrong_one_the_claim_fails() -> None:
    class Halved(ScaledDot):
        def features(self, query: Tensor, keys: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
            return query * (2 / self.key_size), keys

    for wrong in (Dot, Halved):
        assert not Scaling(sizes=(4, 64, 256), draws=300, scaled=wrong).run(1).holds


def test_scores_of_one_query_are_one_draw_of_the_variance() -> None:
    """By hand: the means of the squares are 1 and 9, with a standard deviation of sqrt(32)."""
    found = scaling._softmax_of(torch.tensor([[1.0, -1.0], [3.0, -3.0]]))
    assert found.variance == 5 and found.error == pytest.approx(math.sqrt(32) / math.sqrt(2))
    assert found.largest == pytest.approx((1 / (1 + math.exp(-2)) + 1 / (1 + math.exp(-6))) / 2)


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
def test_an_invalid_edge_is_rejected(edges: Any) -> None:
    with pytest.raises(LabError, match=r"theorem\.edges.*give pairs of nodes") as refused:
        GraphEquivalence(edges)
    assert "\n" not in str(refused.value)


def test_nodes_stand_in_the_order_of_their_numbers() -> None:
    assert GraphEquivalence(("10-2", "1 - 2")).names == ["1", "2", "10"]


def test_the_wrong_kernel_is_seen() -> None:
    scores = (
        Laplacian,
        lambda *sizes, width: Gaussian(*sizes, width=2 * width),
        lambda *sizes, width: Gaussian(*sizes, width=max(width, 1.0)),  # of one width alone
    )
    for score in scores:
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


def _estimate(bias: float, variance: float = 1.0, samples: int = 1) -> gradients.Estimate:
    return gradients.Estimate("", bias, 0.01, variance, samples, gradients.SCORE_FUNCTION)


def test_every_part_of_the_claim_about_gradients_counts() -> None:
    right, wrong = _estimate(0.0), _estimate(1.0)
    found = gradients.Estimates(
        plain=[right, _estimate(0.0, 0.25, 4)],
        with_baseline=[_estimate(0.0, 0.8), _estimate(0.0, 0.2, 4)],
        with_entropy=wrong,
        own_objective=right,
        gumbel=[right, wrong],
    )
    assert found.hold
    for change in (
        {"plain": [right, _estimate(1.0, 0.25, 4)]},
        {"plain": [right, _estimate(0.0, 0.3, 4)]},  # falls less than 1 / N
        {
            "plain": [right, _estimate(0.0, 0.21, 4)],
            "with_baseline": [found.with_baseline[0], _estimate(0.0, 0.1, 4)],
        },
        {"with_baseline": [found.with_baseline[0], _estimate(1.0, 0.2, 4)]},
        {"with_baseline": [found.with_baseline[0], _estimate(0.0, 0.24, 4)]},
        {"with_entropy": right},
        {"own_objective": wrong},
        {"gumbel": [wrong, right]},
    ):
        assert not found._replace(**change).hold, change  # type: ignore[arg-type]


def test_a_state_that_grows_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurrence, "_linear_past", recurrence._softmax_past)
    assert not SMALL["recurrence"]().run(1).holds


def test_an_attention_that_sees_neighbours_only_has_a_longer_path() -> None:
    narrow = Mechanism(ScaledDot, window=lambda **sizes: Band(**sizes, width=2))
    finding = ReceptiveField(distances=(1, 3, 8), depths=3, mechanism=narrow).run(1)
    assert not finding.holds
    assert [row[1] for row in finding.rows[:3]] == [1, 2, 4]


def test_anything_but_a_mechanism_is_rejected() -> None:
    with pytest.raises(TypeError, match="mechanism must be a Mechanism, such as Mechanism"):
        ReceptiveField(mechanism="scaled_dot")  # type: ignore[arg-type]


def test_what_cannot_be_compared_is_never_equal() -> None:
    assert largest_difference(torch.tensor([1.0, math.nan]), torch.tensor([1.0, math.nan])) == math.inf
    assert largest_difference(torch.tensor([1.0, -2.0]), torch.tensor([1.5, -2.0])) == 0.5
    with pytest.raises(ValueError, match="cannot be compared"):
        largest_difference(torch.zeros(2), torch.zeros(2, 1))


@pytest.mark.parametrize(
    "make",
    [
        lambda: ConvolutionEquivalence(grid=(9, 4)),
        lambda: ConvolutionEquivalence(grid=(9,)),
        lambda: ConvolutionEquivalence(paddings=("same",)),
        lambda: ConvolutionEquivalence(paddings=()),
        lambda: ConvolutionEquivalence(kernels=()),
        lambda: ConvolutionEquivalence(channels=()),
        lambda: ConvolutionEquivalence(channels=((3,),)),
        lambda: ConvolutionEquivalence(channels=((3, 0),)),
        lambda: ConvolutionEquivalence(sharpness=0.0),
        lambda: ConvolutionEquivalence(sweep=()),
        lambda: ConvolutionEquivalence(sweep=(1, -1)),
        lambda: ConvolutionEquivalence(tolerance=0),
        lambda: GraphEquivalence(("1-2",), random=((0, 0.5),)),
        lambda: GraphEquivalence(("1-2",), random=((9, 1.5),)),
        lambda: GraphEquivalence(("1-2",), random=((9,),)),
        lambda: GraphEquivalence(("1-2",), random=((math.nan, 0.5),)),
        lambda: GraphEquivalence(("1-2",), size=0),
        lambda: GraphEquivalence(("1-2",), tolerance=-1.0),
        lambda: HardGradients(keys=1),
        lambda: HardGradients(size=0),
        lambda: HardGradients(keys=2.5),  # type: ignore[arg-type]
        lambda: HardGradients(samples=(1, 0)),
        lambda: HardGradients(temperatures=()),
        lambda: HardGradients(repetitions=99),
        lambda: HardGradients(samples=(4, 16)),
        lambda: KernelEquivalence(queries=0),
        lambda: KernelEquivalence(features=()),
        lambda: KernelEquivalence(widths=()),
        lambda: KernelEquivalence(tolerance=math.nan),
        lambda: KernelEquivalence(features=(1, 0)),
        lambda: KernelEquivalence(widths=(1.0, 0.0)),
        lambda: LinearRecurrence(lengths=(64, 0)),
        lambda: LinearRecurrence(batch=0),
        lambda: LinearRecurrence(repeats=1.5),  # type: ignore[arg-type]
        lambda: LinearRecurrence(lengths=()),
        lambda: LinearRecurrence(tolerance=0.0),
        lambda: ReceptiveField(kernel_size=1),
        lambda: ReceptiveField(kernel_size=4),
        lambda: ReceptiveField(distances=(8, 0)),
        lambda: ReceptiveField(distances=()),
        lambda: ReceptiveField(depths=0),
        lambda: ReceptiveField(size=0),
        lambda: ReceptiveField(size=3),
        lambda: ReceptiveField(width=2.5),  # type: ignore[arg-type]
        lambda: Scaling(sizes=(8,)),
        lambda: Scaling(sizes=(8, 0)),
        lambda: Scaling(keys=1),
        lambda: EarlyInformation(length=3),
        lambda: EarlyInformation(others=(0,)),
        lambda: EarlyInformation(batch_size=0),
        lambda: EarlyInformation(learning_rate=math.nan),
        lambda: EarlyInformation(seeds=1),
    ],
)
def test_an_option_out_of_range_is_refused(make: Callable[[], Theorem]) -> None:
    with pytest.raises(LabError, match=r"^theorem"):
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
