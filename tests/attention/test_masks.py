"""Masks, entry by entry: True = attend."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from attention_lab.attention import adjacency_mask, band_mask, causal_mask, leave_out_mask, lengths_mask
from attention_lab.attention.checks.masks import check_lengths
from attention_lab.attention.masks import mask_and_bias
from attention_lab.attention.torch_state import under_vmap
from attention_lab.errors import LabError


def _rows(mask: torch.Tensor) -> list[str]:
    return ["".join("x" if cell else "." for cell in row) for row in mask.tolist()]


def test_one_length_for_each_example() -> None:
    mask = lengths_mask(torch.tensor([3, 0, 1]), 3)
    assert mask.shape == (3, 1, 3)
    assert _rows(mask[:, 0]) == ["xxx", "...", "x.."]


def test_one_length_for_each_query() -> None:
    mask = lengths_mask(torch.tensor([[1, 2], [3, 0]]), 3)
    assert _rows(mask[0]) == ["x..", "xx."] and _rows(mask[1]) == ["xxx", "..."]


def test_lengths_are_numbers() -> None:
    with pytest.raises(TypeError, match=r"torch\.tensor\(\[3, 5\]\), not list"):
        check_lengths([3, 5])
    with pytest.raises(TypeError, match=r"mask\.sum\(-1\)"):
        check_lengths(torch.ones(2, 5, dtype=torch.bool))


def test_a_mask_of_zeros_and_ones_in_place_of_lengths_is_rejected() -> None:
    mask = torch.tensor([[0, 1, 1], [1, 1, 1]])  # as a tokenizer returns it
    with pytest.raises(ValueError, match=r"^lengths \[2, 3\] of zeros and ones are a mask: .*mask\.bool\(\)"):
        lengths_mask(mask, 3)
    assert lengths_mask(mask, 4).shape == (2, 3, 4)
    assert lengths_mask(torch.tensor([[0, 0, 1], [1, 0, 0]]), 3).sum() == 2


@pytest.mark.usefixtures("unchecked_shapes")
def test_a_length_that_is_no_whole_number_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"^lengths must be whole numbers, got 1\.5$"):
        lengths_mask(torch.tensor([2.0, 1.5]), 3)  # type: ignore[arg-type]
    assert _rows(lengths_mask(torch.tensor([2.0, 1.0]), 3)[:, 0]) == ["xx.", "x.."]


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: causal_mask(3.0), "queries must be a whole number, not 3.0"),
        (lambda: causal_mask(torch.ones(2, 3)), "queries must be a whole number, not a Tensor"),
        (lambda: causal_mask(3, "cpu"), "keys must be a whole number, not 'cpu'"),
        (lambda: causal_mask(3, -1), "keys must be at least 0, got -1"),
        (lambda: causal_mask(3, offset=1.5), "offset must be a whole number, not 1.5"),
        (lambda: causal_mask(torch.tensor(2.5)), "queries must be a whole number, not tensor(2.5000)"),
        (lambda: band_mask(3, 3, -1), "width must be at least 0, got -1"),
        (lambda: band_mask(3, 3, 1.5), "width must be a whole number, not 1.5"),
        (lambda: band_mask(3, True, 1), "keys must be a whole number, not True"),
        (lambda: lengths_mask(torch.tensor([1]), 2.5), "size must be a whole number, not 2.5"),
        (lambda: leave_out_mask(torch.arange(2), 2.5), "keys must be a whole number, not 2.5"),
        (lambda: adjacency_mask(torch.tensor([[0], [1]]), 2.0), "nodes must be a whole number, not 2.0"),
    ],
)
def test_sizes_and_positions_are_whole_numbers(make: Callable[[], Any], complaint: str) -> None:
    with pytest.raises(LabError) as error:
        make()
    assert str(error.value) == complaint


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.filterwarnings("ignore:.*torch.jit.trace.* is deprecated", "ignore::torch.jit.TracerWarning")
def test_sizes_and_positions_in_a_trace_or_a_graph() -> None:
    """There they are tensors, or symbols without a value."""
    x = torch.ones(3, 5)

    def make(x: torch.Tensor) -> torch.Tensor:
        return causal_mask(x.shape[0], x.shape[1], offset=x.shape[1] - x.shape[0])

    wanted = causal_mask(4, 6, offset=2)
    assert torch.jit.trace(make, x)(torch.ones(4, 6)).equal(wanted)  # type: ignore[no-untyped-call]
    assert torch.compile(make, backend="eager", fullgraph=True, dynamic=True)(torch.ones(4, 6)).equal(wanted)
    assert make_fx(make, tracing_mode="symbolic")(x)(torch.ones(4, 6)).equal(wanted)
    assert causal_mask(torch.tensor(3)).equal(causal_mask(3))  # type: ignore[arg-type]


@pytest.mark.parametrize("length", [-1, 6])
def test_lengths_are_from_zero_to_the_number_of_keys(length: int) -> None:
    with pytest.raises(ValueError, match=rf"lengths must be from 0 to 5, the number of keys, got {length}$"):
        lengths_mask(torch.tensor([5, length, 0]), 5)
    assert lengths_mask(torch.zeros(0, dtype=torch.long), 5).shape == (0, 1, 5)


@pytest.mark.usefixtures("unchecked_shapes")
def test_indices_to_leave_out_are_numbers() -> None:
    for index, given in ((torch.tensor([0.0]), "torch.float32"), ([0, 1], "list")):
        with pytest.raises(TypeError, match=rf"integer tensor .* not {given}$"):
            leave_out_mask(index, 3)  # type: ignore[arg-type]


def test_indices_to_leave_out_are_keys() -> None:
    with pytest.raises(ValueError, match=r"^the index must be below 3, the number of keys, got 3$"):
        leave_out_mask(torch.tensor([1, 3]), 3)


def test_causal() -> None:
    assert _rows(causal_mask(3)) == ["x..", "xx.", "xxx"]
    assert _rows(causal_mask(2, 4, offset=2)) == ["xxx.", "xxxx"]


def test_band() -> None:
    assert _rows(band_mask(3, 4, 1)) == ["xx..", "xxx.", ".xxx"]
    assert _rows(band_mask(2, 3, 0)) == ["x..", ".x."]


def test_leave_out() -> None:
    assert _rows(leave_out_mask(torch.tensor([0, 2, -1]), 3)) == [".xx", "xx.", "xxx"]


def test_whether_vmap_is_running_can_be_asked_in_compiled_code() -> None:
    compiled = torch.compile(lambda x: -x if under_vmap() else x, backend="eager", fullgraph=True)
    assert compiled(torch.ones(1)) == 1


def test_a_mask_that_is_added_to_the_scores_is_split_into_a_mask_and_a_bias() -> None:
    added = torch.tensor([0.5, -9000.0, -math.inf, -8999.0])
    mask, bias = mask_and_bias(added, -9000.0)
    assert mask.tolist() == [True, False, False, True]
    assert bias is not None and bias.tolist() == [0.5, 0.0, 0.0, -8999.0]
    mask, bias = mask_and_bias(added)
    assert mask.tolist() == [True, True, False, True]


def test_a_bias_of_zeros_is_kept_only_to_be_learned() -> None:
    added = torch.tensor([0.0, -math.inf])
    assert mask_and_bias(added)[1] is None
    learned = added.clone().requires_grad_()
    bias = mask_and_bias(learned)[1]
    assert bias is not None
    bias.sum().backward()  # type: ignore[no-untyped-call]
    assert learned.grad is not None and learned.grad.tolist() == [1.0, 0.0]
