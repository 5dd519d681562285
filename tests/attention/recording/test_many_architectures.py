"""Many architectures of transformers: the same outputs, and the weights that each gives itself."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from many import NAMES, UNRECORDED, build, implementations, inputs_of
from torch import Tensor, nn

from attention_lab.attention import recording


def _tensors(output: Any) -> Iterator[Tensor]:
    """All tensors of an output."""
    if isinstance(output, Tensor):
        yield output
    elif isinstance(output, dict | list | tuple):
        for one in output.values() if isinstance(output, dict) else output:
            yield from _tensors(one)


@pytest.mark.slow
@pytest.mark.parametrize("padding", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_every_attention_has_the_weights_that_the_model_gives(name: str, padding: bool) -> None:
    """In evaluation; outputs are the same to the bit in training as well. Warnings are errors."""
    eager = build(name, "eager")
    inputs = inputs_of(name, eager, padding=padding)
    with torch.no_grad():
        own = eager(**inputs, output_attentions=True)
    expected = [one for part in own if "attentions" in part for one in _tensors(own[part])]
    assert expected
    for implementation in implementations(name):
        model = build(name, implementation)
        for train in (True, False):
            model.train(train)
            plain = _run(model, inputs)
            with recording(model) as weights:
                recorded = _run(model, inputs)
            assert all(torch.equal(one, other) for one, other in zip(plain, recorded, strict=True))
        left = dict(weights)
        for one in expected:
            same = [key for key, found in left.items() if _equal(found, one, weights.mask(key), inputs)]
            assert same, f"{name}, {implementation}: no recorded weights equal {tuple(one.shape)}"
            del left[same[0]]
        for key, found in left.items():  # those that the model does not give
            assert torch.allclose(found.sum(-1)[weights.mask(key).any(-1)], torch.ones(())), key


@pytest.mark.slow
@pytest.mark.parametrize("name", UNRECORDED.split())
def test_attention_that_is_no_softmax_times_values_is_named(name: str) -> None:
    model = build(name, "eager")
    inputs = inputs_of(name, model, padding=False)
    with pytest.warns(UserWarning, match=r"nothing was recorded for .*Attention\)"), recording(model):
        _run(model, inputs)


def _run(model: nn.Module, inputs: dict[str, Any]) -> list[Tensor]:
    """The outputs, and the next random numbers."""
    torch.manual_seed(0)
    with torch.no_grad():
        return [*_tensors(model(**inputs)), torch.rand(2)]


def _equal(found: Tensor, one: Tensor, mask: Tensor, inputs: dict[str, Any]) -> bool:
    """Whether weights are the same, for queries that are no padding and see a key."""
    if found.shape != one.shape:
        return False
    visible = mask.any(-1)
    padding = inputs.get("attention_mask")
    if padding is not None and padding.shape[1] == found.shape[2]:
        visible = visible & padding[:, None].bool()
    return torch.allclose(found[visible], one[visible], atol=2e-5)
