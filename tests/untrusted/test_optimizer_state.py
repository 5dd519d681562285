"""Checks of the optimiser's state that training restores from a checkpoint."""

from typing import Any

import pytest
import torch
from torch import nn

from attention_lab.untrusted.optimizer_state import optimizer_state


def _trained(kind: type[torch.optim.Optimizer], **options: Any) -> torch.optim.Optimizer:
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = kind(model.parameters(), **options)  # type: ignore[call-arg]

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(torch.ones(1, 3)).square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)  # type: ignore[arg-type]
    return optimizer


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (torch.optim.Adam, {}),
        (torch.optim.Adam, {"fused": True}),
        (torch.optim.SGD, {"momentum": 0.9}),
        (torch.optim.LBFGS, {}),
        (torch.optim.Adafactor, {}),
    ],
)
def test_an_optimiser_accepts_its_own_state(
    kind: type[torch.optim.Optimizer], options: dict[str, Any]
) -> None:
    state = _trained(kind, lr=1, **options).state_dict()
    fresh = _trained(kind, lr=1, **options)
    kept = optimizer_state(fresh, state)
    assert kept["state"].keys() == state["state"].keys()
    fresh.load_state_dict(kept)
    for group in state["param_groups"]:
        group.update(lr=0.25, weight_decay=7.0, max_iter=10**9, history_size=10**9)
    (group,) = optimizer_state(fresh, state)["param_groups"]
    assert group["lr"] == 0.25
    assert group.get("weight_decay") != 7.0 and group.get("max_iter") != 10**9


@pytest.mark.parametrize(
    "value",
    [
        3,
        torch.ones(10**3),
        torch.ones(2, 3, 1),
        torch.ones(2, 1),
        torch.ones(1),
        torch.tensor(1.0),
        "x",
        float("nan"),
        10**60,
        {"a": 1},
        [torch.ones(7, 7)],
    ],
)
def test_an_optimiser_rejects_other_states(value: Any) -> None:
    optimizer = _trained(torch.optim.Adam, fused=True)
    state = optimizer.state_dict()
    state["state"][0]["exp_avg"] = value
    with pytest.raises(ValueError, match="optimiser"):
        optimizer_state(optimizer, state)
    for bad in ({}, [], {**state, "state": {9: {}}}, {**state, "param_groups": []}):
        with pytest.raises(ValueError, match="optimiser"):
            optimizer_state(optimizer, bad)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("transposed", [True, False])
def test_the_state_of_an_optimiser_has_the_layout_of_its_parameter(transposed: bool, fused: bool) -> None:
    """A fused kernel writes consecutive numbers, whatever the strides: here up to 15 past the end."""
    ones = torch.ones(4, 4)
    parameter = nn.Parameter(ones.t() if transposed else ones)
    optimizer = torch.optim.Adam([parameter], fused=fused)
    parameter.grad = torch.arange(16.0).view(4, 4)
    optimizer.step()
    state = optimizer.state_dict()
    own = state["state"][0]["exp_avg"]
    assert optimizer_state(optimizer, state)["state"][0]["exp_avg"] is own
    for value in (
        torch.arange(16.0).as_strided((4, 4), (0, 0), 15),
        own.t().contiguous().t(),
        own.mT.clone(),
    ):
        state["state"][0]["exp_avg"] = value
        kept = optimizer_state(optimizer, state)["state"][0]["exp_avg"]
        assert kept.stride() == parameter.stride() and kept.storage_offset() == 0
        assert torch.equal(kept, value)
