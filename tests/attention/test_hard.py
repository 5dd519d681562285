"""Hard attention: its samples, its gradients, and their estimators against enumeration."""

from typing import Any

import pytest
import torch
from torch import Tensor

from attention_lab.attention import Attention, Dot, Exact, Gumbel, Hard, ScaledDot, Soft, drawing
from attention_lab.attention.gradient_estimators import (
    bound,
    leave_one_out,
    marginal,
    monte_carlo,
    reward_to_go,
)
from attention_lab.attention.pooling import entropy_of, log_of, probabilities
from attention_lab.errors import LabError

WEIGHTS = torch.tensor([[0.1, 0.2, 0.7], [0.5, 0.5, 0.0]])
VALUE = torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]])


@pytest.mark.parametrize("pooling", [Hard(), Gumbel()], ids=lambda x: type(x).__name__)
def test_draws_follow_the_weights(pooling: Hard | Gumbel) -> None:
    torch.manual_seed(0)
    contexts = pooling.train()(WEIGHTS.expand(20_000, 2, 3), torch.eye(3).expand(20_000, 3, 3))
    assert set(contexts.unique().tolist()) == {0.0, 1.0}
    assert torch.equal(contexts.sum(-1), torch.ones(20_000, 2))
    torch.testing.assert_close(contexts.mean(0), WEIGHTS, atol=0.015, rtol=0)


@pytest.mark.parametrize("pooling", [Hard(), Gumbel()], ids=lambda x: type(x).__name__)
def test_half_precision_draws_as_float32(pooling: Hard | Gumbel) -> None:
    half = WEIGHTS.bfloat16().expand(5_000, 2, 3)
    contexts = []
    for weights in (half, half.float()):
        torch.manual_seed(0)
        contexts.append(pooling.train()(weights, torch.eye(3, dtype=torch.float64).expand(5_000, 3, 3)))
    assert torch.equal(*contexts) and contexts[0].dtype == torch.float64


@pytest.mark.parametrize("pooling", [Hard(), Gumbel(), Exact()], ids=lambda x: type(x).__name__)
def test_evaluation_takes_the_likeliest(pooling: Hard) -> None:
    assert pooling.eval()(WEIGHTS[:1], VALUE).tolist() == [[2.0, 2.0]]
    assert pooling(torch.zeros(1, 3), VALUE).tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("pooling", [Hard(), Gumbel(), Exact()], ids=lambda x: type(x).__name__)
def test_a_row_of_zeros_is_zero_in_value_and_gradient(pooling: Hard) -> None:
    torch.manual_seed(0)
    weights = torch.tensor([[0.0, 0.0, 0.0], [0.3, 0.3, 0.4]], requires_grad=True)
    value = VALUE.clone().requires_grad_()
    context = pooling.train()(weights, value)
    assert context[0].tolist() == [0.0, 0.0]
    context[0].sum().backward()
    assert value.grad is not None and not value.grad.any()
    assert weights.grad is None or not weights.grad[0].any()


@pytest.mark.parametrize("pooling", [Hard(), Gumbel(), Exact()], ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("training", [True, False])
def test_no_keys_give_zeros(pooling: Hard, training: bool) -> None:
    context = pooling.train(training)(torch.ones(2, 4, 0), torch.ones(2, 0, 3))
    assert torch.equal(context, torch.zeros(2, 4, 3))


def test_weights_that_do_not_sum_to_one_are_proportions() -> None:
    assert probabilities(WEIGHTS * torch.tensor([[0.5], [2.0]])).allclose(WEIGHTS)
    assert probabilities(torch.zeros(1, 2)).tolist() == [[0.0, 0.0]]


def test_draws_are_kept_with_their_log_probability_and_entropy() -> None:
    torch.manual_seed(0)
    pooling = Hard().train()
    weights = WEIGHTS.clone().requires_grad_()
    with drawing(pooling) as draws:
        context = pooling(weights, torch.eye(3))
    (draw,) = draws
    torch.testing.assert_close(draw.log_probability.exp(), (context * WEIGHTS).sum(-1))
    expected = -sum(p * torch.tensor(p).log() for p in (0.1, 0.2, 0.7))
    torch.testing.assert_close(draw.entropy, torch.stack([expected, torch.tensor(2.0).log()]))
    (draw.log_probability.sum() + draw.entropy.sum()).backward()
    assert weights.grad is not None and weights.grad.isfinite().all()
    pooling(weights, torch.eye(3))
    assert len(draws) == 1 and pooling.draws is None


def test_straight_through_has_the_gradient_of_the_relaxed_draw() -> None:
    logits = torch.tensor([0.3, -0.2, 0.9], dtype=torch.float64, requires_grad=True)
    value = torch.randn(3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(3)
    Gumbel(0.7).train()(logits.softmax(-1)[None], value).sum().backward()
    torch.manual_seed(3)
    noise = -torch.empty(1, 3, dtype=torch.float64).exponential_().log()
    again = logits.detach().clone().requires_grad_()
    (torch.softmax((again.log_softmax(-1) + noise) / 0.7, -1) @ value).sum().backward()
    torch.testing.assert_close(logits.grad, again.grad)


def _problem() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    scores, likelihood = torch.randn(2, 6, dtype=torch.float64, generator=generator)
    return scores.requires_grad_(), (likelihood - 2).requires_grad_(), scores.softmax(-1)


@pytest.mark.parametrize("baseline", [0.0, -1.7])
def test_the_mean_of_monte_carlo_is_the_gradient_of_the_bound(baseline: float) -> None:
    """Over all six positions, each weighed by its probability: no sampling error."""
    scores, likelihood, p = _problem()
    exact = torch.autograd.grad(bound(p, likelihood), [scores, likelihood], retain_graph=True)
    mean = sum(
        p[s].detach() * monte_carlo(likelihood[s], p.log()[s], baseline=baseline) for s in range(len(p))
    )
    for got, want in zip(torch.autograd.grad(mean, [scores, likelihood]), exact, strict=True):
        torch.testing.assert_close(got, want, atol=1e-12, rtol=0)


def test_monte_carlo_subtracts_the_baseline_from_the_reward() -> None:
    log_likelihood, log_probability = (torch.zeros(2, requires_grad=True) for _ in range(2))
    surrogate = monte_carlo(log_likelihood, log_probability, torch.tensor([3.0, 5.0]), 1.0, weight=0.5)
    gradients = torch.autograd.grad(surrogate.sum(), [log_likelihood, log_probability])
    assert [x.tolist() for x in gradients] == [[1.0, 1.0], [1.0, 2.0]]


def test_a_sample_is_compared_with_the_other_samples_of_its_example() -> None:
    reward = torch.tensor([[1.0, 2.0, 6.0], [0.0, 0.0, 3.0]])
    assert leave_one_out(reward).tolist() == [[4.0, 3.5, 1.5], [1.5, 1.5, 0.0]]
    assert leave_one_out(reward.unsqueeze(-1)).squeeze(-1).equal(leave_one_out(reward))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"samples": 1, "baseline": "leave_one_out"}, r"set pooling\.samples=2 or more"),
        (
            {"samples": 4, "baseline": "mean"},
            r"pooling\.baseline=mean is unknown: choose moving_average, ",
        ),
    ],
)
def test_baselines_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(LabError, match=message):
        Hard(**options)


def test_a_baseline_may_be_true_or_false() -> None:
    assert [Hard(baseline=given).baseline for given in (True, False)] == ["moving_average", "none"]


def test_the_bound_is_below_the_log_likelihood() -> None:
    _, likelihood, p = _problem()
    assert bound(p, likelihood) < marginal(p, likelihood)
    torch.testing.assert_close(marginal(p, likelihood), (p * likelihood.exp()).sum().log())
    certain = torch.tensor([0.0, 1.0])
    assert bound(certain, torch.tensor([-3.0, -1.0])) == marginal(certain, torch.tensor([-3.0, -1.0])) == -1


def test_a_position_without_probability_has_a_finite_gradient() -> None:
    p = torch.tensor([0.0, 0.4, 0.6], requires_grad=True)
    likelihood = torch.tensor([-1.0, -2.0, -3.0])
    for value in (bound(p, likelihood), marginal(p, likelihood), entropy_of(p), log_of(p).sum()):
        assert torch.autograd.grad(value, p)[0].isfinite().all()


def test_reward_to_go_sums_what_follows() -> None:
    assert reward_to_go(torch.tensor([1.0, 2.0, 4.0])).tolist() == [7.0, 6.0, 4.0]


@pytest.mark.parametrize(
    "make", [lambda: Hard(0), lambda: Hard(decay=1.0), lambda: Gumbel(0.0), lambda: Exact("x")]
)
def test_options_out_of_range(make) -> None:
    with pytest.raises(LabError, match=r"pooling\."):
        make()


@pytest.mark.parametrize("option", ["weight", "entropy"])
def test_weights_of_the_loss_are_numbers(option: str, unchecked_shapes: None) -> None:
    options: dict[str, Any] = {option: None}
    with pytest.raises(LabError, match=rf"pooling\.{option} must be a number, not None"):
        Hard(**options)


def test_dropout_and_hard_pooling_exclude_each_other() -> None:
    Attention(Dot(2, 2), pooling=Soft(), dropout=0.1)
    with pytest.raises(LabError, match=r"only with soft pooling, not Hard: set model.attention_dropout=0"):
        Attention(Dot(2, 2), pooling=Hard(), dropout=0.1)


@pytest.mark.usefixtures("unchecked_shapes")
def test_only_samples_of_hard_pooling_are_collected() -> None:
    attention = Attention(ScaledDot(4, 4), pooling=Hard())
    for other, given in ((attention, "an Attention"), (Gumbel(), "a Gumbel"), (None, "a NoneType")):
        with (
            pytest.raises(TypeError, match=rf"^drawing takes a Hard pooling, .*, not {given}$"),
            drawing(other),
        ):
            pass
