"""The bound that hard attention maximises: its value is measured beside the gradients of it."""

import re

import pytest
import torch

from attention_lab.theorems import Finding, HardGradients, gradients
from attention_lab.theorems.finding import seeded
from attention_lab.theorems.latent_key import Problem


def _finding() -> Finding:
    return HardGradients(keys=5, size=3, repetitions=4000, samples=(1, 4), temperatures=(0.5, 2.0)).run(1)


def test_the_bound_and_the_log_likelihood_are_those_of_their_formulas() -> None:
    with seeded(1):
        problem = Problem(5, 3)
    probability = torch.softmax(problem.keys @ problem.query / 3**0.5, 0)
    normal = torch.distributions.Normal(problem.values @ problem.weight.mT, 1.0)
    likelihood = normal.log_prob(problem.target).sum(-1)
    lower, exact = problem.likelihoods()
    assert lower == pytest.approx((probability * likelihood).sum().item(), rel=1e-12)
    assert exact == pytest.approx((probability * likelihood.exp()).sum().log().item(), rel=1e-12)
    shown = re.findall(r"-?\d+\.\d+", _finding().notes[0])
    assert [float(one) for one in shown] == pytest.approx([lower, exact], rel=1e-3)


def test_a_bound_above_the_log_likelihood_does_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _finding().holds
    monkeypatch.setattr(gradients.Problem, "likelihoods", lambda _: (-1.0, -2.0))
    assert not _finding().holds
