"""Parts and arguments of an attention that cannot work are reported in one line."""

import re
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, prune

from attention_lab.attention import (
    Additive,
    Attention,
    Band,
    Concat,
    Cosine,
    Dot,
    Gaussian,
    General,
    Global,
    Hard,
    Laplacian,
    Linear,
    LocalP,
    Location,
    Mechanism,
    MultiHead,
    QueryFree,
    ScaledDot,
    Score,
    SinkSoftmax,
    Softmax,
)
from attention_lab.attention.checks.keys import check_memory
from attention_lab.attention.checks.parts import check_parts, check_torch_module
from attention_lab.attention.checks.positions import check_relative
from attention_lab.attention.checks.queries import checked_memory
from attention_lab.attention.checks.tensors import check_tensors
from attention_lab.attention.positions import Alibi, Quadratic, Rotary
from attention_lab.errors import LabError

KEYS = torch.zeros(2, 7, 4)


def test_arguments_are_tensors() -> None:
    check_tensors("remember", key=KEYS)
    for given in (None, [1.0], KEYS.numpy()):
        kind = type(given).__name__
        with pytest.raises(TypeError, match=f"remember takes a tensor as mask, not a {kind}$"):
            check_tensors("remember", key=KEYS, mask=given)
    with pytest.raises(ValueError, match=r"must be \[..., K, d\], got \[4\]"):
        check_memory(torch.zeros(4), torch.zeros(4), None, Dot(4, 4))
    linear = r"not a Linear of torch.nn.modules.linear"  # an adapter around the module may have its name
    with pytest.raises(TypeError, match=f"from_torch takes a torch.nn.MultiheadAttention, {linear}$"):
        check_torch_module(nn.Linear(2, 2))


def test_queries_attend_to_a_memory() -> None:
    message = r"^attend\(query, memory\) takes the memory that remember\(...\) returns, not a Tensor$"
    with pytest.raises(TypeError, match=message):
        checked_memory("attend(query, memory)", KEYS)


def test_a_module_that_has_been_changed_is_not_copied() -> None:
    normed, pruned = nn.MultiheadAttention(4, 2), nn.MultiheadAttention(4, 2)
    parametrizations.weight_norm(normed.out_proj)
    prune.l1_unstructured(pruned, "in_proj_weight", 0.5)
    for module, name in ((normed, "out_proj.parametrizations"), (pruned, "in_proj_weight_orig")):
        with pytest.raises(TypeError, match=rf"from_torch cannot copy {name}.*: remove parametrizations"):
            check_torch_module(module)


def test_relative_positions_are_made_for_the_heads() -> None:
    check_relative(None, 2)
    check_relative(Alibi(2, 4), 2)
    for given, kind in ((Alibi, "Alibi"), ("rotary", "Rotary")):
        with pytest.raises(TypeError, match=rf"such as {kind}\(heads=8, size=64\) for 8 heads of size 64"):
            check_relative(given, 2)
    for other in (Alibi(1, 4), Quadratic(1, 4), Rotary(4, 4)):
        with pytest.raises(ValueError, match=r"made for [14] heads, not 2$"):
            MultiHead(Mechanism(ScaledDot), 8, 2, relative=other)


def test_a_bias_without_values_is_rejected() -> None:
    attention, query = Attention(Dot(4, 4)), torch.zeros(2, 5, 4)
    with pytest.raises(
        ValueError, match=r"the bias is on the meta device .* load_state_dict\(weights, assign=True\), or"
    ):
        attention(query, attention.remember(KEYS), bias=torch.zeros(5, 7, device="meta"))


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Score(0, 4), "query_size must be at least 1, got 0"),
        (lambda: Score(4, 0), "key_size must be at least 1, got 0"),
        (lambda: Score(4, 4, heads=-1), "heads must be at least 1, got -1"),
        (lambda: MultiHead(Mechanism(Dot), 8, 0), "heads must be at least 1, got 0"),
        (lambda: MultiHead(Mechanism(Dot), 0, 2), "size must be at least 1, got 0"),
        (lambda: Band(4, width=True), "window.width must be a whole number, not True"),
        (lambda: Attention(Dot(4, 4), dropout=float("nan")), "dropout must be at least 0, got nan"),
        (lambda: Gaussian(4, 4, width=0.0), "scoring.width must be above 0, got 0.0"),
        (lambda: Laplacian(4, 4, width=float("nan")), "scoring.width must be above 0, got nan"),
        (lambda: Cosine(4, 4, sharpness=float("nan")), "scoring.sharpness must be a number, not nan"),
        (lambda: SinkSoftmax(heads=0), "heads must be at least 1, got 0"),
        (lambda: LocalP(0), "query_size must be at least 1, got 0"),
        (lambda: LocalP(4, 1.5), "heads must be a whole number, not 1.5"),
        (lambda: Alibi(0, 4), "heads must be at least 1, got 0"),
    ],
)
def test_sizes_out_of_range(make: Callable[[], object], complaint: str) -> None:
    with pytest.raises(LabError, match=f"^{complaint}$"):
        make()


def test_a_compiled_score_is_rejected() -> None:
    compiled = torch.compile(Dot(4, 4), backend="eager")
    with pytest.raises(TypeError, match=r"such as torch\.compile\(Attention\(Dot\(\.\.\.\)\)\)"):
        check_parts(compiled)


@pytest.mark.parametrize("window", [Global, LocalP])
@pytest.mark.parametrize(
    "score", [Additive, Concat, Cosine, Gaussian, General, Location, QueryFree, ScaledDot]
)
def test_weights_on_the_meta_device_give_no_arbitrary_numbers(
    score: type[Score], window: type[LocalP]
) -> None:
    """PyTorch's product of a tensor on the CPU and one on the meta device is whatever lies in memory."""
    with torch.device("meta"):
        attention = Attention(score(4, 4), window=window(4))
    query, keys = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    if next(attention.parameters(), None) is None:
        assert attention(query, attention.remember(keys)).isfinite().all()
        return
    with pytest.raises((ValueError, RuntimeError), match="meta"):
        attention(query, attention.remember(keys))


def test_the_error_for_weights_on_the_meta_device_names_the_remedy() -> None:
    with torch.device("meta"):
        attention = Attention(General(4, 4))
    with pytest.raises(ValueError, match=r"a weight \[4, 4\] .* load_state_dict\(weights, assign=True\), or"):
        attention.remember(torch.randn(5, 4))
    attention.load_state_dict(General(4, 4).state_dict(prefix="score."), assign=True)
    assert attention.remember(torch.randn(5, 4)).keys.shape == (5, 4)


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize(
    "score", [Additive, Concat, Cosine, Dot, Gaussian, General, Laplacian, Linear, ScaledDot]
)
def test_a_score_called_directly_names_the_sizes_that_do_not_fit(score: type[Score]) -> None:
    made = score(4, 4)
    query, keys = torch.ones(2, 3, 4), torch.ones(2, 6, 4)
    assert made(query, made.keys(keys)).shape == (2, 3, 6)
    with pytest.raises(
        ValueError, match=r"size 4.* got \[2, 3, 5\]|\[2, 3, 5\] and .* \[2, 6, 4\] .* same size"
    ):
        made(torch.ones(2, 3, 5), made.keys(keys))
    with pytest.raises(
        ValueError, match=r"size 4.* got \[2, 6, 5\]|\[2, 3, 4\] and .* \[2, 6, 5\] .* same size"
    ):
        made(query, made.keys(torch.ones(2, 6, 5)))


@pytest.mark.usefixtures("unchecked_shapes")
def test_a_score_takes_rows() -> None:
    score = Additive(4, 4)
    with pytest.raises(ValueError, match=r"rows of size 4, \[\.\.\., L, 4\], got \[4\]"):
        score(torch.ones(4), score.keys(torch.ones(6, 4)))


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (
            lambda: Mechanism(ScaledDot, Hard),
            "Mechanism(normalizer=...): Hard is a pooling: write pooling=...",
        ),
        (
            lambda: Mechanism(ScaledDot, partial(Band, width=2)),  # type: ignore[arg-type]
            "Mechanism(normalizer=...): Band is a window: write window=...",
        ),
        (
            lambda: Attention(ScaledDot(4, 4), window=Softmax()),  # type: ignore[arg-type]
            "Attention(window=...): Softmax is a normalizer: write normalizer=...",
        ),
        (
            lambda: Attention(ScaledDot(4, 4), pooling=ScaledDot(4, 4)),
            "Attention(pooling=...): ScaledDot is a score: write score=...",
        ),
    ],
)
def test_a_part_in_the_place_of_another_is_rejected(make: Callable[[], object], complaint: str) -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(complaint)}$"):
        make()
