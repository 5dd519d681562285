"""Which examples, heads and queries are recorded."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from attention_lab.attention import (
    Additive,
    General,
    Global,
    LocalP,
    Mechanism,
    MultiheadAttention,
    QueryFree,
    ScaledDot,
    Score,
    SinkSoftmax,
    Softmax,
    recording,
)
from attention_lab.attention.recorder import indices


@pytest.mark.parametrize("option", ["examples", "heads", "queries"])
def test_a_choice_is_numbers(option: str) -> None:
    assert indices(None, option) is None and indices(slice(2), option) == slice(2)
    for one in (1, np.int64(1), [1], (1,), torch.tensor([1]), torch.tensor(1), range(1, 2)):
        assert indices(one, option) == [1]
    for wrong in (torch.tensor([True, False]), [True], "all", ["0"], 1.5, [None]):
        with pytest.raises(TypeError, match=rf"recording\({option}=...\) takes indices or a slice, not an? "):
            indices(wrong, option)
    with pytest.raises(ValueError, match=rf"recording\({option}=\[\]\) selects nothing"):
        indices([], option)


@pytest.mark.parametrize(
    "empty", [slice(3, 3), slice(5, 2), slice(0), slice(-1, -2), slice(-1, 0), slice(0, None, 0)]
)
def test_a_slice_chooses_something_by_whole_numbers(empty: slice) -> None:
    with pytest.raises(ValueError, match=r"^recording\(heads=slice\(.*\)\) selects nothing: leave heads out"):
        indices(empty, "heads")
    with pytest.raises(TypeError, match=r"^recording\(heads=\.\.\.\) takes a slice of whole numbers, not"):
        indices(slice(0, 1.5), "heads")
    for one in (slice(-2, None), slice(-1, 3), slice(2, -1), slice(2, 0, -1), slice(None, None, -1)):
        assert indices(one, "heads") == one


@pytest.mark.parametrize("need_weights", [True, False])
def test_a_slice_beyond_the_batch_records_no_example(need_weights: bool) -> None:
    """Such as the last batch of an epoch, which may be smaller."""
    model, x = nn.MultiheadAttention(8, 4, batch_first=True), torch.randn(2, 5, 8)
    with recording(model, slice(4, 8)) as weights:
        model(x, x, x, need_weights=need_weights)
    assert weights[""].shape == (0, 4, 5, 5)


@pytest.mark.parametrize(
    ("names", "complaint"),
    [(3, "not an int"), ("encoder", r"such as \['encoder'\], not a str"), ([3], "not of an int")],
)
def test_names_are_a_list_of_names(names: object, complaint: str, unchecked_shapes: None) -> None:
    with pytest.raises(TypeError, match=complaint), recording(nn.Identity(), names=names):  # type: ignore[arg-type]
        pass


@pytest.mark.parametrize("normalizer", [Softmax, SinkSoftmax])
@pytest.mark.parametrize("score", [Additive, General, QueryFree, ScaledDot])
def test_heads_without_a_batch_are_not_examples(score: type[Score], normalizer: type[Softmax]) -> None:
    """As in graph attention to all nodes: `[H, N, d]`."""
    attention = Mechanism(score, normalizer)(4, 4, heads=3)
    query, keys, mask = torch.randn(3, 5, 4), torch.randn(3, 7, 4), torch.rand(5, 7) > 0.3
    memory = attention.remember(keys, mask=mask)
    wanted = attention.weights(query, memory)
    with recording(attention) as weights, recording(attention, 0, heads=[2, 0], queries=1) as part:
        attention(query, memory)
    if score is ScaledDot and normalizer is Softmax:  # it computes the same for examples
        assert torch.equal(weights[""], wanted.unsqueeze(1))
        return
    torch.testing.assert_close(weights[""], wanted.unsqueeze(0))  # of the same shape, too
    assert torch.equal(weights.mask("").expand(1, 3, 5, 7), mask.expand(1, 3, 5, 7))
    torch.testing.assert_close(part[""], wanted[None, [2, 0], 1:2])


def test_heads_of_a_window_without_a_batch_are_not_examples() -> None:
    """With `examples=0`, the queries of one head met the windows of all."""
    attention = Mechanism(ScaledDot, window=LocalP)(4, 4, heads=3)
    query, keys = torch.randn(3, 5, 4), torch.randn(3, 7, 4)
    memory = attention.remember(keys)
    with recording(attention, 0) as weights:
        attention(query, memory)
    torch.testing.assert_close(weights[""], attention.weights(query, memory).unsqueeze(0))


@pytest.mark.parametrize("window", [Global, LocalP])
@pytest.mark.parametrize("normalizer", [Softmax, SinkSoftmax])
@pytest.mark.parametrize("score", [General, QueryFree, ScaledDot])
def test_the_parameters_of_one_head_leave_examples_as_they_are(
    score: type[Score], normalizer: type[Softmax], window: type[LocalP]
) -> None:
    attention = Mechanism(score, normalizer, window=window)(4, 4, heads=1)
    query, keys = torch.randn(2, 5, 4), torch.randn(2, 7, 4)
    memory = attention.remember(keys)
    with recording(attention) as weights, recording(attention, 1) as part:
        attention(query, memory)
    wanted = attention.weights(query, memory).unsqueeze(1)
    torch.testing.assert_close(weights[""], wanted)  # of the same shape, too
    torch.testing.assert_close(part[""], wanted[1:])


@pytest.mark.parametrize("backwards", [slice(None, None, -1), slice(-1, None, -2), slice(2, 0, -1)])
def test_slices_that_go_backwards(backwards: slice) -> None:
    """A tensor does not take them."""

    class ByHand(nn.Module):
        def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            return (query @ key.mT).softmax(-1) @ value

    theirs = nn.MultiheadAttention(8, 4, batch_first=True)
    x = torch.randn(3, 5, 8)
    for model in (theirs, MultiheadAttention.from_torch(theirs), ByHand()):
        with (
            recording(model) as weights,
            recording(model, backwards, heads=backwards, queries=backwards) as some,
        ):
            model(x, x, x)
        batch, head, query, _ = weights[""].shape
        places = [list(range(size))[backwards] for size in (batch, head, query)]
        examples, chosen, queries = (torch.tensor(one, dtype=torch.long) for one in places)
        assert torch.allclose(some[""], weights[""][examples][:, chosen][:, :, queries])
