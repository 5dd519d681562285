"""Recording some examples: their weights as if all were recorded, by a model that computes the same."""

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from mechanisms import CASES, SCORES, Case, K, Q, gradients, masks, tensors
from torch import Tensor, nn

from attention_lab.attention import (
    Additive,
    Attention,
    Hard,
    LocalP,
    Mechanism,
    MultiHead,
    ScaledDot,
    Score,
    lengths_mask,
    recording,
)
from attention_lab.attention.fast import band
from attention_lab.attention.recording.context_manager import check_module
from attention_lab.attention.windows import Band
from attention_lab.models.parts.encoder import Encoder

BATCH = 4
every_case = pytest.mark.parametrize("case", CASES, ids=str)


def _inputs(case: Case, mask: str) -> tuple[Attention, list[Tensor], Tensor | None]:
    """An attention in training, and a batch of four: the usual one twice, the second time turned about."""
    attention = case.make(2).double().train()
    inputs = [torch.cat([x, x.flip(-2)]).detach().requires_grad_() for x in tensors(2)]
    found = masks()[mask]
    return attention, inputs, found if found is None or found.dim() == 2 else torch.cat([found, found])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mask", ["none", "empty rows"])
@pytest.mark.parametrize("examples", [None, slice(2)], ids=["all", "two"])
@every_case
def test_it_changes_nothing(case: Case, examples: slice | None, mask: str) -> None:
    """Contexts, gradients and draws are the same, bit for bit; a draw is not repeated."""
    attention, inputs, visible = _inputs(case, mask)

    def run() -> list[Tensor]:
        torch.manual_seed(3)
        context = attention(inputs[0], attention.remember(*inputs[1:], visible))
        return [context, torch.rand(1), *gradients(context, attention, inputs)]

    plain = run()
    with recording(attention, examples):
        recorded = run()
    for got, want in zip(recorded, plain, strict=True):
        assert torch.equal(got, want)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("examples", "expected"),
    [
        (1, [1]),
        (-1, [3]),
        (slice(1, 3), [1, 2]),
        ([3, 0], [3, 0]),
        (range(2), [0, 1]),
        (torch.tensor([2]), [2]),
    ],
    ids=str,
)
@every_case
def test_the_weights_of_some_are_those_of_all(case: Case, examples: object, expected: list[int]) -> None:
    attention, inputs, mask = _inputs(case, "padding")
    memory = attention.remember(*inputs[1:], mask)
    wanted = attention.weights(inputs[0], memory)[expected]
    with recording(attention) as all_of_them:
        attention(inputs[0], memory)
    with recording(attention, examples) as seen:  # type: ignore[arg-type]
        attention(inputs[0], memory)
    assert torch.allclose(seen[""], wanted, atol=1e-12) and not seen[""].requires_grad
    assert torch.allclose(all_of_them[""][expected], wanted, atol=1e-12)
    assert torch.equal(seen.mask(""), all_of_them.mask("")[expected])
    assert seen[""].shape == seen.mask("").shape == (len(expected), 2, Q, K)
    centre, centres = seen.centre(""), all_of_them.centre("")
    assert (centre is None) == (centres is None) == (case.window != "LocalP")
    assert centre is None or torch.allclose(centre, centres[expected])  # type: ignore[index]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("queries", [[-1, 2], slice(1, None, 2)], ids=str)
@every_case
def test_the_weights_of_some_heads_and_queries(case: Case, queries: Any) -> None:
    attention, inputs, mask = _inputs(case, "empty rows")
    memory = attention.remember(*inputs[1:], mask)
    with recording(attention) as everything:
        attention(inputs[0], memory)
    with recording(attention, [2], heads=[1], queries=queries) as seen:
        plain = attention(inputs[0], memory)
    assert plain.shape[:2] == inputs[0].shape[:2]
    rows = (
        list(range(Q))[queries]
        if isinstance(queries, slice)
        else [q % Q for q in torch.tensor(queries).view(-1)]
    )
    for part, whole in ((seen[""], everything[""]), (seen.mask(""), everything.mask(""))):
        heads = [1] if whole.shape[1] > 1 else slice(None)
        assert torch.allclose(part.double(), whole[[2]][:, heads][:, :, rows].double(), atol=1e-12)
    centre, centres = seen.centre(""), everything.centre("")
    assert centre is None or torch.allclose(centre, centres[[2]][:, [1]][:, :, rows])  # type: ignore[index]


def test_only_the_examples_looked_at_are_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    attention, sizes = Attention(ScaledDot(4, 4)), []
    forward = ScaledDot.forward
    monkeypatch.setattr(
        ScaledDot, "forward", lambda score, q, k: sizes.append((len(q), len(k))) or forward(score, q, k)
    )
    x = torch.randn(16, 3, 4)
    with recording(attention, slice(2)) as seen:
        attention(x, attention.remember(x))
    assert sizes == [(2, 2)] and seen[""].shape == (2, 1, 3, 3)


def test_what_the_weights_were_taken_from_is_let_go() -> None:
    attention = Attention(ScaledDot(4, 4), pooling=Hard())
    x = torch.randn(16, 3, 4)
    with recording(attention, slice(2)) as seen:
        attention(x, attention.remember(x))
    assert seen._weights[""][0].untyped_storage().nbytes() == 2 * 3 * 3 * 4


@pytest.mark.parametrize("score", SCORES.values())
def test_tensors_that_all_examples_share(score: type[Score]) -> None:
    attention = Attention(score(4, 4))
    query, key = torch.randn(5, 3, 4), torch.randn(6, 4)
    bias = torch.randn(3, 6)
    with recording(attention, [4, 1]) as seen:
        attention(query, attention.remember(key, mask=torch.rand(3, 6) > 0.2), bias=bias)
        attention(query[:1], attention.remember(key.expand(5, 6, 4)))
        attention(query, attention.remember(key.expand(1, 6, 4), mask=torch.rand(5, 1, 6) > 0.2))
    assert seen[""].shape == (2, 1, 9, 6)
    with recording(attention, 7) as seen:  # no batch: one example
        attention(query[0], attention.remember(key))
    assert seen[""].shape == (1, 1, 3, 6)


def test_an_example_that_there_is_not() -> None:
    attention = Attention(ScaledDot(4, 4))
    x = torch.randn(3, 2, 4)
    with recording(attention, slice(2, 9)) as seen:
        attention(x, attention.remember(x))
        attention(x[:1], attention.remember(x[:1]))
    assert {name: len(weights) for name, weights in seen.items()} == {"": 1, "#2": 0}
    with pytest.raises(IndexError, match="no example 3 in a batch of 3"), recording(attention, 3):
        attention(x, attention.remember(x))


@pytest.mark.parametrize("window", [None, partial(Band, width=2), partial(LocalP, width=2.0)])
@pytest.mark.parametrize("score", [ScaledDot, Additive])
def test_step_by_step_is_all_at_once(score: type[Score], window: Callable[..., nn.Module] | None) -> None:
    """Steps of a decoder at offsets 0, 1, ..., with keys that grow."""
    torch.manual_seed(0)
    attention = (Mechanism(score) if window is None else Mechanism(score, window=window))(4, 4).double()
    x, together = torch.randn(3, 6, 4).double(), attention.remember
    with recording(attention, [2]) as whole:
        attention(x, together(x, causal=True))
    memory = attention.remember(x[:, :0], causal=True)
    with recording(attention, [2]) as steps:
        for t in range(6):
            memory = memory.extend(attention.remember(x[:, t : t + 1], causal=True))
            with attention.unrecorded():
                attention(x[:, t : t + 1], memory, offset=t)  # leaves no trace
            attention.record_weights(x[:, t : t + 1], memory, offset=t)
    for t, weights in enumerate(steps._weights[""]):
        assert torch.allclose(weights[0, 0, 0], whole[""][0, 0, t, : t + 1], atol=1e-12)
    assert len(steps._weights[""]) == 6


def test_recording_in_autocast_leaves_the_gradients() -> None:
    """A parameter cast without gradient must not be found in the cache by what comes after."""
    torch.manual_seed(0)
    attention, x = Attention(Additive(4, 4), window=LocalP(4)), torch.randn(2, 3, 4)
    found = []
    for record in (False, True):
        with torch.autocast("cpu", torch.bfloat16):
            if record:
                with recording(attention):
                    attention.record_weights(x, attention.remember(x))
            loss = attention(x, attention.remember(x)).sum()
        found.append(torch.autograd.grad(loss, list(attention.parameters())))
    for got, want in zip(*found, strict=True):
        assert torch.equal(got, want)


def test_some_attentions_by_name() -> None:
    model = nn.ModuleDict({name: Attention(ScaledDot(2, 2)) for name in "abc"})
    x = torch.randn(1, 2, 2)
    with recording(model, names=["c", "a"]) as seen:
        for attention in model.values():
            attention(x, attention.remember(x))
    assert set(seen) == {"a", "c"}
    with (
        pytest.raises(KeyError, match="d: no module has this name; the modules in the model are a, b, c"),
        recording(model, names=["d"]),
    ):
        pass
    nested = nn.ModuleDict({"layer": nn.Sequential(*model.values())})
    with (
        pytest.raises(KeyError, match=r"layer\.9\.x: no .* 'layer' are layer\.0, layer\.1, layer\.2"),
        recording(nested, names=["layer.9.x"]),
    ):
        pass
    assert model["a"].record is None


@pytest.mark.long
@pytest.mark.sampled(2)
@pytest.mark.parametrize("window", ["none", "band"])
@pytest.mark.parametrize("positions", ["none", "rotary", "alibi", "t5"])
def test_an_encoder_computes_the_same_bits(
    positions: str, window: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However it treats padding: sequences one by one, packed or padded."""
    torch.manual_seed(0)
    monkeypatch.setattr(band, "LEAST", 0)
    mechanism = (
        Mechanism(ScaledDot, window=partial(Band, width=4)) if window == "band" else Mechanism(ScaledDot)
    )
    encoder = Encoder(
        mechanism, d_model=64, heads=2, layers=2, feedforward=8, dropout=0.1, positions=positions
    ).train()
    x = torch.randn(3, 200, 64)
    for lengths in ([200, 200, 200], [200, 10, 199], [200, 190, 199], [20, 2, 19]):
        counts = torch.tensor(lengths)
        torch.manual_seed(1)
        plain = encoder(x, counts)
        torch.manual_seed(1)
        with recording(encoder, [2, 1]) as some:
            assert torch.equal(encoder(x, counts), plain)
        torch.manual_seed(1)
        with recording(encoder) as everything:
            assert torch.equal(encoder(x, counts), plain)
        for name in everything:
            assert torch.allclose(some[name], everything[name][[2, 1]], atol=1e-6)
            real = lengths_mask(counts, 200)
            sums = everything[name].sum(-1)[real.expand(3, 2, 200)]
            assert torch.allclose(sums, torch.ones_like(sums), atol=1e-5)
            assert not everything[name].masked_select(~real.unsqueeze(1)).any()


def test_calls_are_joined_once_and_again_after_another_call() -> None:
    attention = Mechanism(ScaledDot, window=partial(LocalP, width=2.0))(4, 4)
    memory, query = attention.remember(torch.randn(2, 5, 4)), torch.randn(2, 3, 4)
    with recording(attention) as seen:
        for t in range(3):
            attention(query[:, t : t + 1], memory, offset=t)
        for of in (seen.__getitem__, seen.mask, seen.centre):
            first, second = of(""), of("")
            assert first is not None and second is not None
            assert first.data_ptr() == second.data_ptr(), "joined again"
        together = seen[""].clone()
        attention(query[:, :1], memory)
    assert seen[""].shape == (2, 1, 4, 5) and torch.equal(seen[""][:, :, :3], together)
    assert torch.equal(seen.mask("")[:, :, 3], seen.mask("")[:, :, 0])


def test_a_recording_prints_its_names_and_a_wrong_one_lists_them() -> None:
    model = MultiHead(Mechanism(ScaledDot), 8, 2)
    with recording(model) as weights:
        model(torch.randn(3, 5, 8))
    assert repr(weights) == "Recording of 1 attention, [B, H, Q, K]\n  attention: [3, 2, 5, 5]"
    for read in (weights.__getitem__, weights.mask, weights.centre):
        with pytest.raises(KeyError, match="wrong is not in the recording, which has attention"):
            read("wrong")
    assert weights.centre("attention") is None
    with recording(model.attention) as weights:
        model.attention(torch.randn(3, 5, 4), model.attention.remember(torch.randn(3, 5, 4)))
    assert repr(weights) == "Recording of 1 attention, [B, H, Q, K]\n  '': [3, 1, 5, 5]"
    with pytest.raises(KeyError, match="wrong is not in the recording, which has ''"):
        weights["wrong"]


def test_an_empty_recording_says_what_is_recorded() -> None:
    model = nn.Linear(2, 2)
    with recording(model) as weights:
        model(torch.ones(1, 2)).sigmoid()
    assert repr(weights).startswith("Recording of no attention: it covers the attention kernels")


def test_a_model_in_a_wrapper_is_named() -> None:
    with pytest.raises(TypeError, match=r"torch\.nn\.Module, not SimpleNamespace; record its \.model"):
        check_module(SimpleNamespace(model=nn.Linear(1, 1)))
    with pytest.raises(TypeError, match=r"not function$"):
        check_module(lambda x: x)
