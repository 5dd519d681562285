"""Tensors of different types or on different devices are named in one line."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from attention_lab.attention import (
    Additive,
    Attention,
    Concat,
    Constant,
    Cosine,
    Dot,
    General,
    Linear,
    Location,
    Mechanism,
    MultiHead,
    QueryFree,
    ScaledDot,
    Score,
    Sparsemax,
)
from attention_lab.attention.checks.tensors import check_devices
from attention_lab.attention.memory import check_memory

QUERIES, KEYS, VALUES = torch.randn(2, 5, 4), torch.randn(2, 7, 4), torch.randn(2, 7, 3)


def _attend(attention: Attention, query: Tensor, keys: Tensor) -> Tensor:
    context: Tensor = attention(query, attention.remember(keys, VALUES))
    return context


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int64])
@pytest.mark.parametrize("score", [Additive, Concat, General, Location])
def test_parameters_have_the_type_of_the_tensors(score: type[Score], dtype: torch.dtype) -> None:
    """It was torch's error about m1 and m2, which does not say which tensor is meant."""
    how = rf"or the attention, for example with \.to\({dtype}\)"
    remedy = r"for example with \.float\(\)" if dtype == torch.int64 else how
    complaint = (
        rf"^the weights of the attention are torch\.float32, but a tensor \[2, .* is {dtype}: .*{remedy}$"
    )
    with pytest.raises(ValueError, match=complaint):
        _attend(Attention(score(4, 4)), QUERIES.to(dtype), KEYS.to(dtype))


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("normalizer", [None, Sparsemax])
@pytest.mark.parametrize("score", [Dot, ScaledDot, General, Constant, QueryFree])
def test_queries_and_keys_have_the_same_type(
    score: type[Score], normalizer: Callable[[], Any] | None
) -> None:
    attention = Attention(score(4, 4), None if normalizer is None else normalizer())
    with pytest.raises(
        ValueError, match=r"^the queries are torch\.float64, the keys torch\.float32: convert"
    ):
        _attend(attention, QUERIES.double(), KEYS)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert _attend(attention, QUERIES.half(), KEYS).isfinite().all()


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("autocast", [False, True])
def test_linear_attention_by_all_weights_names_the_types(autocast: bool) -> None:
    attention = Attention(Linear(4, 4), Sparsemax())
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        for query, keys in ((QUERIES.double(), KEYS), (QUERIES, KEYS.double())):
            with pytest.raises(ValueError, match=r"^the queries are torch\.float\d\d, the keys torch\.float"):
                _attend(attention, query, keys)


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("normalizer", [None, Sparsemax])
@pytest.mark.parametrize("score", [Cosine, QueryFree])
def test_features_of_another_type_are_not_blamed_on_the_queries(
    score: type[Score], normalizer: Callable[[], Any] | None
) -> None:
    """Queries and keys of one type were told to differ, as the parameters had changed the type of one."""
    attention = Attention(score(4, 4, heads=2), None if normalizer is None else normalizer())
    query, keys = (x.unsqueeze(1).half() for x in (QUERIES, KEYS))
    with pytest.raises(
        ValueError,
        match=r"are torch\.float32, but the queries and keys are torch\.float16: convert them, or the "
        r"attention, for example with \.to\(torch\.float16\)$",
    ):
        attention(query, attention.remember(keys))
    context = attention.half()(query, attention.remember(keys))
    assert context.dtype == torch.float16 and context.isfinite().all()


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("score", [Dot, General, Additive, QueryFree])
def test_autocast_does_not_convert_every_type(score: type[Score]) -> None:
    """It leaves float64 and whole numbers as they are."""
    attention = Attention(score(4, 4))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        wanted = _attend(attention, QUERIES, KEYS)
        mixed = attention(QUERIES, attention.remember(KEYS, VALUES.double()))
        assert mixed.dtype == torch.float64 and torch.allclose(mixed.to(wanted.dtype), wanted, atol=0.05)
        for query, keys in ((QUERIES.double(), KEYS), (QUERIES, KEYS.double())):
            with pytest.raises(ValueError, match=r"is torch\.float64: convert|torch\.float64.*: convert one"):
                _attend(attention, query, keys)
        with pytest.raises(
            ValueError, match=r"torch\.int64: convert the tensor, for example with \.float\(\)$"
        ):
            _attend(Attention(General(4, 4)), QUERIES, KEYS.long())


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("score", [Cosine, Linear])
def test_scores_are_not_rounded_to_whole_numbers(score: type[Score]) -> None:
    """The errors were of torch.finfo, or blamed the class of the score."""
    attention = Attention(score(4, 4))
    memory = attention.remember(KEYS)
    with pytest.raises(
        ValueError, match=r"^queries and keys must be floating-point, got torch\.int64: give x\."
    ):
        attention.weights(QUERIES.long(), memory)


def test_keys_values_and_mask_are_on_the_same_device() -> None:
    """A mask left on the CPU ended in an error of torch that does not name it."""
    mask = torch.ones(2, 1, 7, dtype=torch.bool)
    with pytest.raises(ValueError, match=r"^the mask is on the meta device and has no values$"):
        check_memory(KEYS, VALUES, mask.to("meta"), Dot(4, 4))
    with pytest.raises(ValueError, match=r"^the keys are on the meta device and have no values$"):
        check_memory(KEYS.to("meta"), VALUES, None, Dot(4, 4))


@pytest.mark.usefixtures("unchecked_shapes")
def test_tensors_on_different_devices_are_named() -> None:
    on_gpu: Any = SimpleNamespace(device=torch.device("cuda:0"))
    with pytest.raises(ValueError, match=r"on the same device, got keys on cuda:0, values on cpu$"):
        check_devices(on_gpu, VALUES)
    check_devices(on_gpu, on_gpu)


@pytest.mark.parametrize("layout", [torch.jagged, torch.strided])
@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_a_nested_tensor_is_named_with_what_to_do(layout: torch.layout) -> None:
    """The errors were those of torch, such as an 'Internal error' of which an issue was to be filed."""
    nested = torch.nested.nested_tensor([torch.randn(3, 4), torch.randn(5, 4)], layout=layout)
    attention, layer = Attention(Dot(4, 4)), MultiHead(Mechanism(ScaledDot), 4, 2)
    calls = {
        "remember takes no nested tensor as key": lambda: attention.remember(nested),
        "attention takes no nested tensor as query": lambda: attention(nested, attention.remember(KEYS)),
        "MultiHead takes no nested tensor as x": lambda: layer(nested),
    }
    for complaint, call in calls.items():
        with pytest.raises(TypeError, match=rf"^{complaint}: pad .* packing=Packing\.of_lengths\(\.\.\.\)$"):
            call()
