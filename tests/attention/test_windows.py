"""Windows: band, local-m and local-p."""

import math

import pytest
import torch

from attention_lab.attention import Attention, Band, Dot, Global, LocalP, causal_mask, recording
from attention_lab.attention.windows import FALLOFFS
from attention_lab.errors import LabError


def _rows(mask: torch.Tensor) -> list[str]:
    return ["".join(".x"[int(cell)] for cell in row) for row in mask]


def test_band_is_about_the_position_of_the_query() -> None:
    query = torch.zeros(3, 1)
    assert _rows(Band(1, width=1)(query, 4, None, 0).mask) == ["xx..", "xxx.", ".xxx"]
    assert _rows(Band(1, width=1)(query, 4, None, 2).mask) == [".xxx", "..xx", "...x"]
    assert _rows(Band(1, width=0)(query, 2, None, 0).mask) == ["x.", ".x", ".."]
    assert Global(1)(query, 4, None, 0) == (None, None, None)


def test_a_query_beyond_the_keys_has_no_context() -> None:
    attention = Attention(Dot(1, 1), window=Band(1, width=1))
    key = torch.randn(3, 1, requires_grad=True)
    context = attention(torch.ones(2, 1), attention.remember(key), offset=3)
    assert context[0] != 0 and context[1] == 0
    assert torch.autograd.grad(context[1].sum(), key)[0].eq(0).all()


def test_local_p_predicts_the_middle_with_parameters_of_zero() -> None:
    """p = S / 2: by hand, with a score of zero for every key."""
    window = LocalP(2, width=2.0)
    torch.nn.init.zeros_(window.scaled_vector)
    attention = Attention(Dot(2, 2), window=window)
    query, key = torch.ones(1, 2), torch.zeros(6, 2)
    with recording(attention) as seen:
        attention(query, attention.remember(key))
    assert seen.centre("") is not None and seen.centre("").item() == 3  # type: ignore[union-attr]
    expected = [0, *(math.exp(-((j - 3) ** 2) / 2) / 5 for j in (1, 2, 3, 4, 5))]
    assert seen[""].flatten().tolist() == pytest.approx(expected)
    assert _rows(seen.mask("")[0, 0]) == [".xxxxx"]


@pytest.mark.parametrize("heads", [None, 3])
def test_local_p_counts_the_keys_that_a_query_may_see(heads: int | None) -> None:
    torch.manual_seed(0)
    window = LocalP(4, heads, width=2.0)
    query = torch.randn(2, heads or 1, 5, 4)
    assert window.position(query, 8, None).amax() <= 8
    causal = window.position(query, 5, causal_mask(5)).squeeze(-1)
    assert (causal <= torch.arange(1, 6)).all() and (causal >= 0).all()
    share = window.position(query, 1, None)
    torch.testing.assert_close(window.position(query, 8, None), 8 * share)


def test_local_p_counts_every_key_under_a_mask_of_whole_queries() -> None:
    torch.manual_seed(0)
    attention = Attention(Dot(4, 4), window=LocalP(4, width=2.0))
    query, key = torch.randn(3, 2, 4), torch.randn(3, 7, 4)
    mask = torch.tensor([[True], [False]])
    expected = attention(query, attention.remember(key, mask=mask.expand(2, 7)))
    assert torch.equal(attention(query, attention.remember(key, mask=mask)), expected)
    seen = attention.remember(key, mask=torch.ones(2, 7, dtype=torch.bool))  # remembered as a mask [2, 1]
    contexts = torch.func.vmap(lambda one: attention(one, seen))(query.unsqueeze(0))
    torch.testing.assert_close(contexts[0], attention(query, attention.remember(key)))


def test_the_predicted_position_is_learned_through_the_factor() -> None:
    torch.manual_seed(0)
    window = LocalP(2, width=3.0)
    attention = Attention(Dot(2, 2), window=window)
    context = attention(torch.randn(4, 2), attention.remember(torch.randn(6, 2)))
    context.sum().backward()
    assert window.scaled_weight.grad is not None and window.scaled_weight.grad.any()
    assert window.scaled_vector.grad is not None and window.scaled_vector.grad.any()


def test_steps_of_adam_move_the_predicted_position_a_little_whatever_the_size() -> None:
    """With W and v as parameters, ten steps move it by a third of the source at size 256."""
    for size in (16, 256):
        torch.manual_seed(0)
        window, query = LocalP(size), torch.randn(64, size) / 4  # states of an LSTM lie between -1 and 1
        optimizer = torch.optim.Adam(window.parameters(), lr=2e-3)
        before = window.position(query, 1, None).mean().item()
        for _ in range(10):
            optimizer.zero_grad()
            window.position(query, 1, None).sum().neg().backward()
            optimizer.step()
        assert 0 < window.position(query, 1, None).mean().item() - before < 0.1


def test_older_checkpoints_have_the_parameters_without_their_scale() -> None:
    torch.manual_seed(0)
    window, query = LocalP(16), torch.randn(5, 16)
    attention = Attention(Dot(16, 16), window=window)
    parameters = attention.state_dict()
    older = {
        name.replace("scaled_", ""): value / 4 if "scaled_" in name else value
        for name, value in parameters.items()
    }
    assert set(older) != set(parameters)
    expected = window.position(query, 9, None)
    fresh = Attention(Dot(16, 16), window=LocalP(16))
    fresh.load_state_dict(older)
    assert isinstance(fresh.window, LocalP)
    assert torch.equal(fresh.window.position(query, 9, None), expected)


def test_every_parameter_to_be_trained_has_a_gradient() -> None:
    for falloff in FALLOFFS:
        attention = Attention(Dot(4, 4), window=LocalP(4, falloff=falloff))
        query = torch.randn(2, 3, 4, requires_grad=True)
        attention(query, attention.remember(torch.randn(2, 5, 4))).sum().backward()
        trained = [one for one in attention.parameters() if one.requires_grad]
        assert len(trained) == (0 if falloff == "none" else 2)
        assert all(one.grad is not None for one in trained)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Band(1, width=-1),
        lambda: LocalP(1, width=0.0),
        lambda: Band(1, width=0, falloff="gaussian"),
        lambda: LocalP(1, width=float("nan")),
        lambda: LocalP(1, width=1e300),
        lambda: LocalP(1, width=1e-300),
    ],
)
def test_widths_out_of_range(make) -> None:
    with pytest.raises(LabError, match=r"window\.width"):
        make()


@pytest.mark.parametrize("kind", [Band, LocalP])
def test_an_unknown_falloff_is_refused(kind) -> None:
    with pytest.raises(LabError, match=r"window\.falloff=linear is unknown: choose none, gaussian"):
        kind(1, width=2, falloff="linear")


def test_a_band_that_falls_off_sums_below_one() -> None:
    """By hand, with a score of zero for every key: softmax over the window, then the factor."""
    attention = Attention(Dot(2, 2), window=Band(2, width=2, falloff="gaussian"))
    memory = attention.remember(torch.zeros(5, 2))
    weights = attention.weights(torch.ones(5, 2), memory)
    near, far = math.exp(-1 / 2), math.exp(-2)  # sigma = 1
    assert weights[2].tolist() == pytest.approx([x / 5 for x in (far, near, 1, near, far)])
    assert weights[0].tolist() == pytest.approx([1 / 3, near / 3, far / 3, 0, 0])
    assert (weights.sum(-1) < 1).all()
    torch.testing.assert_close(attention.weights(torch.ones(1, 2), memory, offset=2), weights[2:3])


@pytest.mark.parametrize("make", [Band, LocalP])
def test_a_falloff_multiplies_the_weights_of_the_window_without(make) -> None:
    torch.manual_seed(0)
    query, key = torch.randn(2, 6, 4).double(), torch.randn(2, 6, 4).double()
    weights = {}
    for falloff in ("none", "gaussian"):
        torch.manual_seed(1)
        attention = Attention(Dot(4, 4), window=make(4, width=2, falloff=falloff)).double()
        weights[falloff] = attention.weights(query, attention.remember(key))
    position = torch.arange(6).double()
    centre = position.unsqueeze(-1) if make is Band else attention.window.position(query, 6, None)
    factor = torch.exp(-((position - centre) ** 2) / 2)
    torch.testing.assert_close(weights["gaussian"], weights["none"] * factor)
    inside = weights["none"].sum(-1)
    torch.testing.assert_close(inside, torch.ones_like(inside))


def test_windows_fall_off_by_default_as_they_did() -> None:
    query = torch.randn(3, 4)
    assert Band(4, width=2)(query, 6, None, 0).factor is None
    window = LocalP(4, width=2.0)
    distance = torch.arange(6) - window.position(query, 6, None)
    span = window(query, 6, None, 0)
    assert torch.equal(span.factor, torch.exp(distance.square() * (-2 / 2.0**2)))


def test_a_predicted_position_keeps_its_digits_under_autocast() -> None:
    torch.manual_seed(0)
    window, query = LocalP(8), torch.randn(2, 5, 8)
    exact = window.position(query, 300, None)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(window.position(query, 300, None), exact)
    assert window.bfloat16().position(query.bfloat16(), 300, None).dtype == torch.float32


def test_the_falloff_of_a_wide_band_does_not_overflow_half_precision() -> None:
    factor = Band(1, width=400, falloff="gaussian").factor(torch.tensor([300]), torch.float16)
    assert factor is not None and factor.item() == pytest.approx(math.exp(-2 * 0.75**2))


@pytest.mark.parametrize("window", [Global, Band, LocalP])
def test_a_window_is_made_for_the_queries_of_the_score(window: type[Band]) -> None:
    """A width that is not given by its name would silently be the size of the queries."""
    name = window.__name__
    with pytest.raises(ValueError, match=rf"queries of size 3, the score for 8: write {name}\(8, \.\.\.\)"):
        Attention(Dot(8, 8), window=window(3))
