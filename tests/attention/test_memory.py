"""The memory of keys and values: its shapes, masks and selection, and what is rejected."""

from typing import Any

import pytest
import torch
from torch import Tensor

from attention_lab.attention import (
    Additive,
    Attention,
    Cosine,
    Dot,
    Gaussian,
    General,
    Laplacian,
    Linear,
    Location,
    QueryFree,
    ScaledDot,
    Score,
)
from attention_lab.attention.checks.keys import check_memory
from attention_lab.attention.checks.queries import check_query
from attention_lab.attention.memory import Memory
from attention_lab.errors import LabError


def test_a_memory_is_shown_by_its_shapes() -> None:
    memory = Attention(Dot(2, 2)).remember(torch.randn(3, 5, 2), causal=True)
    assert repr(memory) == "Memory(keys=[3, 5, 2], value=[3, 5, 2], causal=True)"


def test_a_memory_whose_mask_all_examples_share_can_be_selected_from() -> None:
    attention = Attention(Dot(2, 2))
    key, query = torch.randn(3, 5, 2), torch.randn(3, 4, 2)
    rows = torch.tensor([2, 0])
    for mask in (torch.arange(5) < 3, torch.ones(4, 5, dtype=torch.bool).tril()):
        memory = attention.remember(key, mask=mask if mask.dim() > 1 else mask.expand(1, 1, 5))
        wanted = attention(query, memory)[rows]
        assert torch.allclose(attention(query[rows], memory.select(rows)), wanted)


@pytest.mark.parametrize("leading", [(), (1,)])
def test_a_memory_whose_values_all_examples_share_can_be_selected_from(leading: tuple[int, ...]) -> None:
    attention = Attention(Dot(2, 2))
    query, key, value = torch.randn(3, 4, 2), torch.randn(3, 5, 2), torch.randn(*leading, 5, 2)
    rows = torch.tensor([2, 0, 0, 1, 2])
    memory = attention.remember(key, value)
    contexts = attention(query[rows], memory.select(rows))
    torch.testing.assert_close(contexts, attention(query, memory)[rows])


KEYS, VALUES = torch.zeros(2, 7, 4), torch.zeros(2, 7, 3)


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize(
    ("index", "given"),
    [
        ([0, 1], "not list"),
        (torch.tensor([True, False]), r"not torch\.bool"),
        (torch.tensor([0.0]), r"not torch\.float32"),
    ],
)
def test_examples_are_selected_by_whole_numbers(index: Any, given: str) -> None:
    with pytest.raises(TypeError, match=rf"^the index must be an integer tensor of examples, .* {given}$"):
        Memory(KEYS, VALUES, None).select(index)


def test_a_memory_without_a_batch_has_no_examples() -> None:
    """Instead of examples, keys would be selected."""
    memory = Attention(Dot(4, 4)).remember(KEYS[0], VALUES[0])
    with pytest.raises(ValueError, match=r"without a batch has no examples to select: its keys are \[7, 4\]"):
        memory.select(torch.tensor([0]))


@pytest.mark.usefixtures("unchecked_shapes")
def test_only_a_memory_extends_a_memory() -> None:
    memory: Any = Memory(KEYS, VALUES, None)
    with pytest.raises(
        TypeError, match=r"^extend takes the memory that remember\(.*\) returns, not a Tensor$"
    ):
        memory.extend(KEYS)
    complaint = r"in all but the number of keys: got {} \[2, 7, {}\] and \[{}\]$"
    for more, of in (
        (Memory(torch.zeros(3, 1, 4), VALUES, None), complaint.format("keys", 4, "3, 1, 4")),
        (Memory(KEYS, KEYS, None), complaint.format("values", 3, "2, 7, 4")),
        (Memory(KEYS[0], VALUES[0], None), complaint.format("keys", 4, "7, 4")),
    ):
        with pytest.raises(ValueError, match=of):
            memory.extend(more)


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"value": VALUES[:, :3]}, r"needs a value: got keys \[2, 7, 4\] and values \[2, 3, 3\]$"),
        ({"keys": KEYS[:, :3]}, r"needs a value: got keys \[2, 3, 4\] and values \[2, 7, 3\]$"),
        ({"mask": torch.ones(2, 1, 7)}, r"a mask must be boolean"),
        ({"value": VALUES.to("meta")}, "^the values are on the meta device"),
        ({"keys": KEYS.to("meta"), "value": VALUES.to("meta")}, "^the keys are on the meta device"),
    ],
)
def test_a_memory_is_not_changed_in_one_part(changed: dict[str, Tensor], complaint: str) -> None:
    memory = Attention(Dot(4, 4)).remember(KEYS, VALUES)._replace(**changed)
    with pytest.raises(ValueError, match=complaint):
        check_query(torch.zeros(2, 5, 4), memory, 4)


@pytest.mark.parametrize("score", [Dot, Gaussian, Linear, Laplacian])
def test_queries_on_the_meta_device_need_keys_there(score: type[Score]) -> None:
    attention = Attention(score(4, 4))
    with pytest.raises(ValueError, match=r"^the queries are on the meta device and have no values$"):
        attention(torch.zeros(2, 5, 4, device="meta"), attention.remember(KEYS, VALUES))


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("offset", [1.5, "1", None, True])
def test_the_position_of_the_first_query_is_a_whole_number(offset: Any) -> None:
    """Even where it makes no difference."""
    attention, query = Attention(Dot(4, 4)), torch.zeros(2, 5, 4)
    memory = attention.remember(KEYS)
    for call in (attention, attention.weights):
        with pytest.raises(LabError, match=f"^offset must be a whole number, not {offset!r}$"):
            call(query, memory, offset=offset)
    assert attention(query, memory, offset=torch.tensor(1)).shape == (2, 5, 4)


@pytest.mark.usefixtures("unchecked_shapes")
def test_causal_order_is_not_a_mask() -> None:
    attention: Any = Attention(Dot(4, 4))
    for causal, given in ((torch.ones(7, 7).bool(), "a Tensor"), ("no", "a str")):
        with pytest.raises(TypeError, match=f"^causal must be True or False, not {given}: .*mask="):
            attention.remember(KEYS, causal=causal)


@pytest.mark.parametrize(
    ("key", "value", "mask", "complaint"),
    [
        (torch.zeros(2, 7, 5), VALUES, None, r"keys of size 4, got \[2, 7, 5\]"),
        (KEYS, torch.zeros(2, 6, 3), None, r"keys \[2, 7, 4\] and values \[2, 6, 3\]"),
        (KEYS, torch.zeros(3, 7, 3), None, r"keys \[2, 7, 4\] and values \[3, 7, 3\]"),
        (KEYS, VALUES, torch.ones(2, 1, 7), r"boolean .* mask\.bool\(\) for .* ones and zeros, or mask == 0"),
        (KEYS, VALUES, torch.tensor([7, 3]), r"got torch\.int64: .* or lengths_mask\(lengths, keys\)"),
        (KEYS, VALUES, torch.ones(2, 1, 6, dtype=torch.bool), r"\[2, 1, 6\] for keys \[2, 7, 4\]"),
        (KEYS, VALUES, torch.ones(3, 1, 7, dtype=torch.bool), r"\[3, 1, 7\]"),
        (KEYS, VALUES, torch.ones(7, dtype=torch.bool), r"at least two dimensions, .*padding: got \[7\]"),
    ],
)
def test_what_does_not_belong_together_is_refused(
    key: Tensor, value: Tensor, mask: Tensor | None, complaint: str
) -> None:
    """Even where a mask hides nothing, and would not be looked at."""
    with pytest.raises(ValueError, match=complaint):
        check_memory(key, value, mask, Dot(4, 4))


@pytest.mark.parametrize("dtype", [torch.long, torch.bool])
def test_values_are_floating_point(dtype: torch.dtype) -> None:
    """Weights would be rounded to integers as well: all would be zero."""
    with pytest.raises(
        ValueError, match=rf"values must be floating-point, got {dtype}: give value\.float\(\)"
    ):
        check_memory(KEYS, VALUES.to(dtype), None, Additive(4, 4))


@pytest.mark.usefixtures("unchecked_shapes")
def test_a_mask_in_place_of_the_values_is_named() -> None:
    """As the second argument, which is the mask in `MultiHead.remember`."""
    with pytest.raises(
        ValueError, match=r"got torch\.bool: give value\.float\(\), or mask=\.\.\. for a mask$"
    ):
        Attention(Dot(4, 4)).remember(KEYS, torch.ones(2, 1, 7, dtype=torch.bool))


HEADS = torch.zeros(2, 3, 7, 4)  # keys of two examples and three heads


@pytest.mark.parametrize("score", [General, Additive, Cosine, Gaussian, Location, QueryFree])
def test_keys_have_the_heads_of_the_score(score: type[Score]) -> None:
    with pytest.raises(ValueError, match=r"made for 2 heads, keys \[B, 2, K, 4\], got \[2, 3, 7, 4\]"):
        Attention(score(4, 4, 2)).remember(HEADS)
    assert Attention(score(4, 4, 2)).remember(HEADS[:, :1]).value.shape == (2, 1, 7, 4)
    assert Attention(ScaledDot(4, 4, 2)).remember(HEADS).value.shape == (2, 3, 7, 4)  # it has no parameters


@pytest.mark.parametrize("shape", [(2, 1, 7), (3, 1, 7), (3, 5, 7), (2, 5, 7)])
@pytest.mark.parametrize("heads", [2, 3])
def test_a_mask_that_could_be_for_examples_or_for_heads_is_refused(
    shape: tuple[int, ...], heads: int
) -> None:
    attention, mask = Attention(Dot(4, 4)), torch.rand(shape) > 0.5
    with pytest.raises(ValueError, match=r"\[2, 1, 1, 7\] to hide padding, \[2, 1, Q, 7\]") as refused:
        attention.remember(HEADS[:, :heads], mask=mask)
    assert f"[1, {heads}, Q, 7]" in str(refused.value)


@pytest.mark.parametrize(
    "shape", [(1, 7), (5, 7), (1, 1, 7), (1, 5, 7), (2, 1, 1, 7), (2, 1, 5, 7), (1, 3, 5, 7), (2, 3, 5, 7)]
)
def test_a_mask_with_heads_hides_what_it_says(shape: tuple[int, ...]) -> None:
    attention = Attention(Dot(4, 4))
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(0)) > 0.5
    query = torch.randn(2, 3, 5, 4)
    memory = attention.remember(torch.randn(2, 3, 7, 4), mask=mask)
    assert torch.equal(attention.weights(query, memory) > 0, mask.expand(2, 3, 5, 7))


def test_a_mask_has_no_more_dimensions_than_the_keys() -> None:
    attention, mask = Attention(Dot(4, 4)), torch.rand(2, 1, 5, 7) > 0.5
    with pytest.raises(ValueError, match=r"\[2, 1, 5, 7\] for keys \[2, 7, 4\] has too many dimensions"):
        attention.remember(KEYS, VALUES, mask)
    memory = attention.remember(torch.randn(7, 4), mask=mask)  # keys that all share
    assert torch.equal(attention.weights(torch.randn(2, 3, 5, 4), memory) > 0, mask.expand(2, 3, 5, 7))


@pytest.mark.parametrize("hidden", [0, 1])
@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("leading", [(), (1,)])
def test_keys_that_all_share_have_an_example_for_each_mask(
    hidden: int, rows: int, leading: tuple[int, ...]
) -> None:
    """Whatever the masks hide, even nothing."""
    attention, mask = Attention(Dot(4, 4)), torch.arange(7).expand(3, rows, 7) >= hidden
    query, key = torch.randn(*leading, 5, 4), torch.randn(*leading, 7, 4)
    memory = attention.remember(key, mask=mask)
    contexts = attention(query, memory)
    assert contexts.shape == (3, 5, 4)
    chosen = memory.select(torch.tensor([2, 0]))
    torch.testing.assert_close(attention(query, chosen), contexts[[2, 0]])


@pytest.mark.parametrize("shape", [(1, 7), (5, 7), (2, 1, 7), (2, 5, 7), (1, 5, 7), (2, 1, 1)])
def test_whatever_broadcasts_to_the_weights_is_a_mask(shape: tuple[int, ...]) -> None:
    attention = Attention(Dot(4, 4))
    memory = attention.remember(KEYS, VALUES, torch.zeros(shape, dtype=torch.bool))
    assert attention(torch.zeros(2, 5, 4), memory).shape[-3:] == (2, 5, 3)


def test_queries_fit_score_and_mask() -> None:
    attention = Attention(Dot(4, 4))
    with pytest.raises(ValueError, match=r"queries of size 4, got \[2, 5, 3\]"):
        attention(torch.zeros(2, 5, 3), attention.remember(KEYS, VALUES))
    memory = attention.remember(KEYS, VALUES, torch.zeros(2, 6, 7, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"does not fit queries .* each of the 5; .* mask\.unsqueeze\(1\)"):
        attention(torch.zeros(2, 5, 4), memory)
    memory = attention.remember(KEYS, VALUES, torch.ones(6, 7, dtype=torch.bool))  # hides nothing
    with pytest.raises(ValueError, match=r"does not fit queries .* each of the 5; .* mask\.unsqueeze\(1\)"):
        attention(torch.zeros(2, 5, 4), memory)
    with pytest.raises(ValueError, match=r"\[3, 5, 4\] and keys \[2, 7, 4\] must agree"):
        attention(torch.zeros(3, 5, 4), attention.remember(KEYS, VALUES))
    with pytest.raises(ValueError, match=r"bias \[5, 6\] does not broadcast to the scores \[2, 5, 7\]"):
        attention(torch.zeros(2, 5, 4), attention.remember(KEYS, VALUES), bias=torch.zeros(5, 6))


@pytest.mark.parametrize(
    ("memory", "bias", "complaint"),
    [
        (KEYS, None, r"remember\(\.\.\.\) returns, not a Tensor"),
        (Memory(KEYS, VALUES, None), torch.ones(5, 7).bool(), r"not torch\.bool; .*remember\(keys, mask="),
        (Memory(KEYS, VALUES, None), [0.0], "not list"),
    ],
)
def test_a_tensor_is_not_a_memory_and_a_mask_is_not_a_bias(memory: Any, bias: Any, complaint: str) -> None:
    with pytest.raises(TypeError, match=complaint):
        check_query(torch.zeros(2, 5, 4), memory, 4, bias)


def test_a_score_has_a_row_for_each_query() -> None:
    class OfKeys(Score):
        def forward(self, query: Any, keys: Any) -> Any:
            return keys.sum(-1).unsqueeze(-2)

    attention = Attention(OfKeys(4, 4))
    with pytest.raises(ValueError, match=r"OfKeys must return scores \[\.\.\., 5, 7\] .* got \[2, 1, 7\]"):
        attention(torch.zeros(2, 5, 4), attention.remember(KEYS, VALUES))
