"""The attention module: recording, dropout, sizes, and the mechanism that makes it."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from attention_lab.attention import (
    Additive,
    Attention,
    Constant,
    Dot,
    Entmax15,
    Exact,
    Gaussian,
    General,
    Gumbel,
    Hard,
    Linear,
    LocalP,
    Location,
    Mechanism,
    MultiHead,
    QueryFree,
    ScaledDot,
    Score,
    Sigmoid,
    SinkSoftmax,
    Softmax,
    Sparsemax,
    recording,
)
from attention_lab.attention.attention import check_mechanism
from attention_lab.attention.checks.parts import check_makers, check_parts
from attention_lab.attention.checks.returned import check_span
from attention_lab.attention.positions import Alibi, Learned, Sinusoidal
from attention_lab.attention.windows import Band, Global, Span
from attention_lab.errors import LabError


def test_recorded_weights_are_those_before_dropout() -> None:
    torch.manual_seed(0)
    attention = Attention(ScaledDot(4, 4), dropout=0.5).train()
    query, key = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    memory = attention.remember(key)
    with recording(attention) as seen:
        dropped = attention(query, memory)
    weights = seen[""][:, 0]
    assert torch.allclose(weights.sum(-1), torch.ones(2, 3))
    assert not torch.allclose(dropped, weights @ key, atol=1e-3)
    assert torch.allclose(attention.eval()(query, memory), weights @ key, atol=1e-6)


def test_dropout_keeps_the_expectation_on_both_paths() -> None:
    torch.manual_seed(0)
    for score in (ScaledDot(4, 4), Additive(4, 4)):
        attention = Attention(score, dropout=0.3).train()
        query, key = torch.randn(1, 1, 4), torch.randn(1, 6, 4)
        memory = attention.remember(key)
        mean = attention(query.expand(1, 4000, 4), memory).mean(1, keepdim=True)
        assert torch.allclose(mean, attention.eval()(query, memory), atol=0.08)


def test_recording_names_joins_and_ends() -> None:
    model = nn.ModuleDict({"a": Attention(Dot(2, 2)), "b": Attention(Dot(2, 2))})
    key = torch.randn(3, 4, 2)
    memory = model["a"].remember(key, mask=torch.ones(3, 1, 4, dtype=torch.bool).tril(2))
    with recording(model) as seen:
        for _ in range(2):
            model["a"](torch.randn(3, 1, 2), memory)
        model["b"](torch.randn(5, 2), model["b"].remember(torch.randn(4, 2)))
    assert {name: tuple(seen[name].shape) for name in seen} == {"a": (3, 1, 2, 4), "b": (1, 1, 5, 4)}
    assert seen.mask("a").shape == seen["a"].shape and not seen.mask("a")[..., 3].any()
    assert seen.mask("b").all()
    model["a"](torch.randn(3, 1, 2), memory)
    assert seen["a"].shape[2] == 2
    assert not seen["a"].requires_grad


def test_recording_ends_after_an_error() -> None:
    attention = Attention(Dot(2, 2))
    with pytest.raises(RuntimeError), recording(attention):
        raise RuntimeError
    assert attention.record is None


def test_unequal_sizes() -> None:
    query, key = torch.randn(2, 3, 4), torch.randn(2, 5, 6)
    for score in (Additive, General):
        attention = Mechanism(score)(4, 6)
        assert attention(query, attention.remember(key)).shape == (2, 3, 6)
    with pytest.raises(LabError, match=r"the same size, got 4 and 6.*scoring=general"):
        Mechanism(Dot)(4, 6)


def test_additive_hidden_size() -> None:
    score = Additive(4, 6, hidden_size=9)
    assert score.keys(torch.randn(2, 5, 6)).shape == (2, 5, 9)


def test_scaled_scores_start_with_variance_one() -> None:
    torch.manual_seed(0)
    query, key = torch.randn(400, 64), torch.randn(400, 64)
    for score in (ScaledDot(64, 64), General(64, 64)):
        variance = score(query, score.keys(key)).var().item()
        assert 0.8 < variance < 1.2
    assert 50 < Dot(64, 64)(query, key).var().item() < 80


@pytest.mark.parametrize("normalizer", [Softmax, SinkSoftmax, Sparsemax, Entmax15, Sigmoid])
def test_no_keys_at_all_give_zeros_on_every_path(normalizer: type[nn.Module]) -> None:
    for score in (Dot(2, 2), Additive(2, 2), Gaussian(2, 2)):
        attention = Attention(score, normalizer())
        query, memory = torch.randn(3, 4, 2), attention.remember(torch.randn(3, 0, 2))
        for context in (attention(query, memory), attention.weights(query, memory) @ memory.value):
            assert context.shape == (3, 4, 2) and not context.any()


@pytest.mark.parametrize("content", [float("nan"), float("inf")])
@pytest.mark.parametrize("window", [Global, LocalP])
@pytest.mark.parametrize("normalizer", [Softmax, SinkSoftmax, Sparsemax, Entmax15, Sigmoid])
@pytest.mark.parametrize("score", [Dot, Additive, Constant])
def test_a_query_without_a_key_may_have_any_content(
    score: type[Score], normalizer: type[nn.Module], window: type[nn.Module], content: float
) -> None:
    attention = Attention(score(4, 4), normalizer(), window=window(4))
    query, key, mask = torch.randn(2, 3, 4), torch.randn(2, 5, 4), torch.rand(2, 3, 5) < 0.7
    mask[..., 0] = True
    query[0, 1], mask[0, 1] = content, False
    context = attention(query, attention.remember(key, mask=mask))
    assert context.isfinite().all()
    assert context[0, 1].tolist() == [0.0] * 4


@pytest.mark.parametrize("score", [Dot, Additive])
def test_keys_without_a_query_may_have_any_content(score: type[Score]) -> None:
    attention = Attention(score(4, 4))
    memory = attention.remember(torch.full((5, 4), torch.nan), mask=torch.ones(0, 5, dtype=torch.bool))
    attention(torch.randn(0, 4, requires_grad=True), memory).sum().backward()
    assert all(x.grad is None or x.grad.isfinite().all() for x in attention.parameters())


@pytest.mark.parametrize("score", [Constant, QueryFree])
def test_weights_without_a_query_do_not_depend_on_large_vectors(score: type[Score]) -> None:
    """Whose sum is infinite in float16."""
    attention = Attention(score(64, 64)).half()
    vectors, value = torch.full((2, 5, 64), 2000.0).half(), torch.randn(2, 5, 3).half()
    memory = attention.remember(vectors, value)
    assert (attention.weights(vectors, memory).float() - 0.2).abs().max() < 1e-3
    mean = value.float().mean(1, keepdim=True)
    torch.testing.assert_close(attention(vectors, memory).float(), mean.expand(2, 5, 3), atol=1e-2, rtol=0)


@pytest.mark.parametrize("score", [Dot, Additive])
@pytest.mark.parametrize("leading", [(), (1,)])
def test_one_sequence_may_have_several_biases(score: type[Score], leading: tuple[int, ...]) -> None:
    attention, query, key = Attention(score(4, 4)), torch.randn(*leading, 5, 4), torch.randn(*leading, 7, 4)
    biases = torch.randn(3, 5, 7)
    memory = attention.remember(key)
    contexts = attention(query, memory, bias=biases)
    each = [attention(query, memory, bias=bias).view(5, 4) for bias in biases]
    assert torch.allclose(contexts, torch.stack(each), atol=1e-6)


@pytest.mark.parametrize("score", [Dot, Additive])
def test_a_bias_may_be_of_another_precision(score: type[Score]) -> None:
    attention, query, bias = Attention(score(4, 4)), torch.randn(5, 4), torch.randn(5, 7)
    memory = attention.remember(torch.randn(7, 4))
    contexts = [attention(query, memory, bias=x) for x in (bias, bias.double())]
    assert torch.allclose(*contexts, atol=1e-6)


@pytest.mark.parametrize(
    ("parts", "complaint"),
    [
        ({"score": Dot}, r"not a class: write Dot\(query_size=64, key_size=64\)"),
        (
            {"score": partial(Additive, hidden_size=8)},
            r"not a partial, which Mechanism takes: write Additive\(query_size=64, key_size=64\)",
        ),
        ({"score": Dot(4, 4), "normalizer": Softmax}, r"normalizer=\.\.\.\) .* write Softmax\(\.\.\.\)"),
        (
            {"score": torch.matmul},
            r"takes a Score, not a builtin_function_or_method: .*forward\(query, keys\)",
        ),
        ({"score": Dot(4, 4), "pooling": "soft"}, r"pooling=\.\.\.\) takes a module, not a str"),
    ],
)
def test_parts_are_objects(parts: dict[str, Any], complaint: str) -> None:
    with pytest.raises(TypeError, match=complaint):
        check_parts(**parts)


class _WithoutBase(Dot):
    def __init__(self, query_size: int, key_size: int, heads: int | None = None) -> None:
        self.power = 2


def test_a_score_without_its_base_is_named() -> None:
    call = r"_WithoutBase.__init__ must call super\(\).__init__\(query_size, key_size, heads\)"
    with pytest.raises(TypeError, match=call):
        Attention(_WithoutBase(4, 4))


def test_a_window_returns_a_span() -> None:
    check_span(Span(), Global(4), 5, 7)
    with pytest.raises(TypeError, match=r"Global must return a Span, such as Span\(mask\), .* not Tensor"):
        check_span(torch.ones(5, 7).bool(), Global(4), 5, 7)


def test_a_mechanism_makes_its_parts() -> None:
    with pytest.raises(TypeError, match=r"score=\.\.\.\) takes a class such as Dot, .* not a Dot"):
        check_makers(score=Dot(4, 4))
    with pytest.raises(TypeError, match=r"window=\.\.\.\) takes a class .* not a str"):
        check_makers(score=Dot, window="band")
    check_mechanism(Mechanism(Dot))
    with pytest.raises(TypeError, match=r"such as Mechanism\(Dot\), not the class Dot"):
        check_mechanism(Dot)


def test_what_is_printed_names_the_parts_and_their_options() -> None:
    assert repr(Mechanism(Dot)) == "Mechanism(Dot)"
    banded = Mechanism(partial(Additive, hidden_size=8), Entmax15, window=partial(Band, width=3))
    parts = "partial(Additive, hidden_size=8), normalizer=Entmax15, window=partial(Band, width=3)"
    assert repr(banded) == f"Mechanism({parts})"
    assert repr(Mechanism(lambda **sizes: Dot(**sizes))).startswith("Mechanism(<function")
    printed = repr(Mechanism(Dot, partial(Softmax, temperature=2.0), window=Band)(4, 4, heads=2))
    assert "(score): Dot(query_size=4, key_size=4, heads=2)" in printed
    assert "(normalizer): Softmax(temperature=2.0)" in printed
    assert "(window): Band(width=5, falloff=none)" in printed
    assert repr(Additive(4, 6, hidden_size=5)) == (
        "Additive(query_size=4, key_size=6, hidden_size=5, activation=tanh)"
    )
    assert repr(Location(4, 6, length=9)) == "Location(query_size=4, key_size=6, length=9)"
    assert repr(Hard(samples=2)) == "Hard(samples=2, baseline=moving_average)"
    assert repr(Gumbel(0.5)) == "Gumbel(temperature=0.5)"
    assert repr(Exact("marginal")) == "Exact(objective=marginal)"
    layer = MultiHead(Mechanism(Dot), 8, 4, relative=Alibi(4, 2, causal=True), key_value_heads=2)
    assert repr(layer).startswith("MultiHead(\n  size=8, heads=4, key_value_heads=2\n")
    assert "(relative): Alibi(heads=4, prefix=0, causal=True)" in repr(layer)
    assert repr(Sinusoidal(4, 9)) == "Sinusoidal(size=4, length=9)"
    assert repr(Learned(4, 9)) == "Learned(size=4, length=9)"
    assert "Softmax()" in repr(Attention(Dot(4, 4))) and "heads" not in repr(Attention(Dot(4, 4)))


@pytest.mark.parametrize("window", [Global, Band, LocalP])
@pytest.mark.parametrize("score", [Additive, Dot, Gaussian, Linear])
def test_a_window_is_asked_once_a_call(
    score: type[Score], window: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By calls of its public method: that of local-p runs a network."""
    attention = Mechanism(score, window=window)(4, 4)
    calls: list[None] = []
    forward = window.forward
    monkeypatch.setattr(window, "forward", lambda *given: calls.append(None) or forward(*given))
    mask = torch.rand(2, 1, 7, generator=torch.Generator().manual_seed(0)) > 0.3
    query, memory = torch.randn(2, 5, 4), attention.remember(torch.randn(2, 7, 4), mask=mask)
    attention(query, memory)
    assert len(calls) <= 1
    assert calls or window is Global  # a path by sums over the keys needs none
