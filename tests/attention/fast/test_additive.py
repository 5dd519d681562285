"""Additive scores without a hidden layer for each pair equal the formula, in values and gradients."""

import logging
import math

import pytest
import torch
from additive_results import close
from counted_operators import Operators
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from attention_lab.attention import Additive, Concat
from attention_lab.attention.fast import compiling
from attention_lab.attention.fast.additive import chunks, compiled_loops, scores
from attention_lab.attention.fast.additive.forms import ACTIVATIONS, FORMS, LOGISTIC, rational
from attention_lab.attention.fast.additive.scores import additive_scores

every_activation = pytest.mark.parametrize("activation", ACTIVATIONS)


@pytest.fixture(params=["one chunk", "chunks"])
def _never_the_formula(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small calls go the way of large ones."""
    monkeypatch.setattr(scores, "SMALL", -1)
    monkeypatch.setattr(scores, "CHUNK", -1)
    if request.param == "chunks":
        monkeypatch.setattr(chunks, "CHUNK", 40)


SHAPES = [
    ((), (), ()),
    ((3,), (3,), ()),
    ((3,), (), ()),
    ((1,), (3,), ()),
    ((2, 3), (2, 3), (3,)),
    ((2, 1), (3,), (3,)),
]
EXTREMES = [0.0, 1e-40, 9.9, 20.0, 50.0, -49.9, 1e4, -1e4, 1e30]


@pytest.mark.usefixtures("_never_the_formula")
@settings(max_examples=25)
@given(
    activation=st.sampled_from([*ACTIVATIONS, "tanh", "tanh"]),
    leading=st.sampled_from(SHAPES),
    sizes=st.tuples(*[st.integers(0, 9)] * 2, st.integers(1, 5)),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    seed=st.integers(0, 2**16),
    spread=st.sampled_from([0.1, 1.0, 8.0, 30.0, 1e4]),
)
@example("tanh", SHAPES[1], (9, 9, 5), torch.float32, 0, 1.0)
@example("sigmoid", SHAPES[4], (9, 9, 5), torch.float64, 0, 30.0)
def test_equals_the_formula_in_value_and_gradient(
    activation: str,
    leading: tuple[tuple[int, ...], ...],
    sizes: tuple[int, int, int],
    dtype: torch.dtype,
    seed: int,
    spread: float,
) -> None:
    generator = torch.Generator().manual_seed(seed)
    queries, keys, hidden = sizes
    ends = ((queries, hidden), (keys, hidden), (hidden,))
    inputs = [
        torch.randn(*first, *last, dtype=dtype, generator=generator)
        for first, last in zip(leading, ends, strict=True)
    ]
    if activation in LOGISTIC:  # the others grow without bound
        inputs[1] *= spread
        inputs[seed % 2] += spread * (seed % 3 - 1)
    close(inputs, activation, 2e-6 if dtype == torch.float32 else 1e-12)


@pytest.mark.usefixtures("_never_the_formula")
@settings(max_examples=25)
@given(
    activation=st.sampled_from(list(LOGISTIC)),
    a=st.lists(st.sampled_from(EXTREMES) | st.floats(-60, 60, width=32), min_size=8, max_size=8),
    b=st.lists(st.sampled_from(EXTREMES) | st.floats(-1e4, 1e4, width=32), min_size=9, max_size=9),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
@example("tanh", [50.0] * 8, [-49.9] * 9, torch.float32)
@example(
    "tanh", [14.9] * 4 + [-14.9] * 4, [-14.8, 14.8, 1e4, -1e4, 25.1, -25.1, 1e30, 24.9, 0.0], torch.float32
)
@example("tanh", [1e4] * 8, [-1e4] * 9, torch.float64)
def test_any_finite_input_is_right(
    activation: str, a: list[float], b: list[float], dtype: torch.dtype
) -> None:
    """One hidden unit, so that nothing else hides an error: absolute, and in the slope too."""
    close(
        [
            torch.tensor(a, dtype=dtype)[:, None],
            torch.tensor(b, dtype=dtype)[:, None],
            torch.ones(1, dtype=dtype),
        ],
        activation,
        1e-6 if dtype == torch.float32 else 1e-12,
    )


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 15.0), (torch.float64, 150.0)])
def test_the_rational_form_is_taken_where_it_is_exact(dtype: torch.dtype, bound: float) -> None:
    small, large = torch.tensor([[bound, -bound]], dtype=dtype), torch.tensor([[1e4, -1e30]], dtype=dtype)
    for a, b in ((small, large), (large, small)):
        form = rational("tanh", a, b)
        assert form is not None
        assert form.state(form.enter(a), form.enter(b), None).isfinite().all()
    assert rational("tanh", small * 1.01, large) is None
    assert rational("tanh", small * torch.nan, large) is None
    assert rational("tanh", small * torch.nan, small) is not None
    assert rational("relu", small, small) is None


@pytest.mark.usefixtures("_never_the_formula")
@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
@pytest.mark.parametrize("spread", [1.0, 100.0])
@every_activation
def test_poison_in_one_key_stays_in_its_column(activation: str, poison: float, spread: float) -> None:
    a, b = torch.randn(2, 9, 4) * spread, torch.randn(2, 8, 4) * spread
    clean = additive_scores(a, b, torch.ones(4), activation)
    b[0, 3, 1] = poison
    found = additive_scores(a, b, torch.ones(4), activation)
    if math.isnan(poison):
        assert found[0, :, 3].isnan().all()
    found[0, :, 3] = clean[0, :, 3]
    assert torch.allclose(found, clean, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("_never_the_formula")
@every_activation
def test_a_second_derivative_is_that_of_the_formula(activation: str) -> None:
    a, b, w = (
        torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((3, 2), (4, 2), (2,))
    )
    assert torch.autograd.gradgradcheck(lambda *x: additive_scores(*x, activation), (a, b, w))


@pytest.mark.usefixtures("_never_the_formula")
@pytest.mark.parametrize("trained", [(0,), (1,), (2,), (0, 2), (1, 2)])
def test_a_second_derivative_where_some_inputs_are_frozen(trained: tuple[int, ...]) -> None:
    parts = [torch.randn(*shape, dtype=torch.float64) for shape in ((3, 2), (4, 2), (2,))]
    wanted = [parts[place].requires_grad_() for place in trained]
    second = []
    for scores_of in (lambda: additive_scores(*parts), lambda: scores.reference(*parts, "tanh")):
        first = torch.autograd.grad(scores_of().exp().sum(), wanted, create_graph=True)
        second.append(torch.autograd.grad(sum(x.square().sum() for x in first), wanted))
    assert all(torch.allclose(x, y) for x, y in zip(*second, strict=True))


@pytest.mark.usefixtures("_never_the_formula")
def test_a_gradient_may_be_taken_twice() -> None:
    a, b, w = (torch.randn(*shape, requires_grad=True) for shape in ((6, 2), (7, 2), (2,)))
    total = additive_scores(a, b, w).square().sum()
    first = torch.autograd.grad(total, (a, b, w), retain_graph=True)
    second = torch.autograd.grad(total, (a, b, w))
    assert all(torch.equal(x, y) for x, y in zip(first, second, strict=True))


@pytest.mark.usefixtures("_never_the_formula")
@pytest.mark.parametrize("kind", [Additive, Concat])
@pytest.mark.parametrize("heads", [None, 2])
def test_autocast_computes_in_float32(kind: type[Additive], heads: int | None) -> None:
    torch.manual_seed(0)
    score, x = kind(4, 4, heads, hidden_size=64), torch.randn(3, 2, 8, 4)
    wanted = score(x, score.keys(x))
    with torch.autocast("cpu", torch.bfloat16):
        found = score(x, score.keys(x))
        found.sum().backward()
    assert found.dtype == torch.bfloat16
    assert torch.allclose(found.float(), wanted, atol=3e-2)
    assert score.value_weight.grad is not None and score.value_weight.grad.dtype == torch.float32


@pytest.mark.parametrize("sizes", [(3, 5, 7, 2), (1, 1, 100, 9), (1, 4, 100, 9), (0, 3, 3, 1), (2, 0, 3, 1)])
def test_tiles_cover_every_pair_once(sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    for most in (1, 20, 300, 10**6):
        monkeypatch.setattr(chunks, "CHUNK", most)
        seen = torch.zeros(sizes[:3])
        for n, q, k in chunks.tiles(*sizes):
            seen[n, q, k] += 1
            assert seen[n, q, k].numel() * sizes[3] <= max(most, sizes[3])
        assert (seen == 1).all()


def test_small_calls_are_left_to_the_formula_and_large_ones_hold_no_hidden_layer() -> None:
    w = torch.ones(64, requires_grad=True)
    for length, most in ((8, 2 * 8 * 8 * 64), (192, chunks.CHUNK)):
        a, b = torch.randn(2, length, 64, requires_grad=True), torch.randn(2, length, 64)
        with Operators() as operators:
            additive_scores(a, b, w).sum().backward()
        assert most * 0.9 < operators.largest <= most


def test_when_to_compile() -> None:
    assert not compiling.worth_compiling(compiling.LEAST_WORK - 1, None)
    assert compiling.worth_compiling(compiling.LEAST_WORK, None)
    assert compiling.worth_compiling(1, True) and not compiling.worth_compiling(10**12, False)


@pytest.mark.usefixtures("_never_the_formula")
def test_without_a_compiler_there_are_chunks(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Tried once and never again, with one line in the debug log."""
    tried = []

    def broken(*args: object, **options: object) -> None:
        tried.append(1)
        raise RuntimeError("no compiler\nand a long story")

    monkeypatch.setattr(torch, "compile", broken)
    compiled_loops._compiled.cache_clear()
    inputs = [torch.randn(2, 9, 4), torch.randn(2, 8, 4), torch.randn(4)]
    with caplog.at_level(logging.DEBUG, logger=compiling.__name__):
        for _ in range(2):
            close(inputs, "tanh", 2e-6, compiled=True)
    compiled_loops._compiled.cache_clear()
    assert len(tried) == 2  # the scores, and the gradients
    assert [record.levelname for record in caplog.records] == ["DEBUG"] * 2
    assert caplog.messages[0] == "not compiled: RuntimeError: no compiler"


@pytest.mark.parametrize("leading", [(3,), (1, 2), (2, 3)])
@every_activation
def test_the_loops_that_are_compiled_are_those_of_the_formula(
    activation: str, leading: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Uncompiled; `test_additive_compiled.py` compiles them, which takes minutes."""
    for limit in ("SMALL", "CHUNK"):
        monkeypatch.setattr(scores, limit, -1)
    monkeypatch.setattr(compiling.CompiledFunction, "__call__", lambda self, *inputs: self.function(*inputs))
    monkeypatch.setattr(scores, "Chunks", None)
    torch.manual_seed(0)
    queries, keys, w = (torch.randn(*shape, 5) for shape in ((*leading, 4), (*leading, 3), leading[1:]))
    close([queries, keys, w], activation, 2e-6, compiled=True)


@pytest.mark.parametrize("failing", [0, 1])
def test_gradients_of_which_one_is_not_compiled_are_left_to_the_chunks(
    failing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[tuple[Tensor, Tensor] | None] = [(torch.zeros(1, 2, 4), torch.zeros(1, 2, 4))] * 2
    found[failing] = None
    calls = iter(found)
    monkeypatch.setattr(compiled_loops, "_kernels", lambda form: (None, lambda *inputs: next(calls)))
    x = torch.zeros(1, 2, 4)
    assert compiled_loops.gradient_sums(FORMS["tanh"], x, x, torch.zeros(1, 2, 2), 1) is None
