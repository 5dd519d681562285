"""Modules that are called attention, and of which nothing can be recorded."""

import copy
import pickle
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor, nn

from attention_lab.attention import Attention, ScaledDot, recording

B, L, D = 2, 5, 4


class LinearAttention(nn.Module):
    """Without weights (2006.16236)."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x) @ (torch.relu(x).mT @ x)


class SelfAttention(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x @ x.mT).softmax(-1) @ x  # type: ignore[no-any-return]


class AttentionBlock(nn.Module):
    """Attention beside a part whose name is similar."""

    def __init__(self, attention: nn.Module) -> None:
        super().__init__()
        self.attention, self.output = attention, AttentionOutput(D, D)

    def forward(self, x: Tensor) -> Tensor:
        return self.output(self.attention(x))  # type: ignore[no-any-return]


class AttentionOutput(nn.Linear):
    pass


class AttentionProjection(nn.Linear):
    pass


class OursInAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ours = Attention(ScaledDot(D, D))

    def forward(self, x: Tensor) -> Tensor:
        return self.ours(x, self.ours.remember(x))  # type: ignore[no-any-return]


def _messages(model: nn.Module, **options: object) -> list[str]:
    with warnings.catch_warnings(record=True) as caught, recording(model, **options):  # type: ignore[arg-type]
        warnings.simplefilter("always")
        model(torch.randn(B, L, D))
    assert all(one.filename == __file__ for one in caught), "not the caller"
    return [str(one.message) for one in caught]


def test_they_are_named_once() -> None:
    linear = [LinearAttention() for _ in range(5)]
    model = nn.Sequential(AttentionBlock(linear[0]), SelfAttention(), *linear[1:])
    (message,) = _messages(model)
    assert message.startswith("recording: nothing was recorded for '0.attention' (LinearAttention), '2' ")
    assert "'3' (LinearAttention) and 2 more" in message and "output_attentions=True" in message
    (message,) = _messages(model, names=["1", "4"])
    assert "'4' (LinearAttention), where" in message
    assert not _messages(model, names=["1"])


@pytest.mark.parametrize("part", [SelfAttention(), OursInAttention()])
@pytest.mark.parametrize("queries", [None, [-1], slice(100, None)])
def test_what_is_recorded_is_not_named(part: nn.Module, queries: object) -> None:
    assert not _messages(nn.Sequential(SelfAttention(), part), queries=queries)


def test_modules_inside_a_recorded_one_are_not_named() -> None:
    class OuterAttention(SelfAttention):
        def __init__(self) -> None:
            super().__init__()
            self.output = AttentionProjection(D, D)

        def forward(self, x: Tensor) -> Tensor:
            return self.output(super().forward(x))  # type: ignore[no-any-return]

    assert not _messages(nn.Sequential(OuterAttention()))
    assert not _messages(OuterAttention())


@pytest.mark.parametrize("keyword", [False, True])
def test_a_module_that_returns_its_input_is_not_named(keyword: bool) -> None:
    """Such as an adapter without anything to attend to."""

    class CrossAttention(nn.Module):
        def forward(self, x: Tensor, source: Tensor | None = None) -> Tensor:
            return x if source is None else torch.relu(x) @ (source.mT @ source)

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.adapter = CrossAttention()

        def forward(self, x: Tensor, source: Tensor | None = None) -> Tensor:
            return self.adapter(x=x, source=source) if keyword else self.adapter(x, source)  # type: ignore[no-any-return]

    assert not _messages(Block())
    model, x = Block(), torch.randn(B, L, D)
    with pytest.warns(UserWarning, match="'adapter'"), recording(model):
        model(model(x), x)


def test_what_ran_in_another_thread_is_said_to_have_done_so() -> None:
    """As the copies that `DataParallel` makes on several GPUs do."""

    class Threaded(nn.Sequential):
        def forward(self, x: Tensor) -> Tensor:
            thread = threading.Thread(target=nn.Sequential(self[0], self[1]), args=(x,))
            thread.start()
            thread.join()
            return self[2](x)  # type: ignore[no-any-return]

    elsewhere, here = _messages(Threaded(SelfAttention(), SelfAttention(), LinearAttention()))
    assert elsewhere == (
        "recording: nothing was recorded for '0' (SelfAttention), '1' (SelfAttention), which ran in another "
        "thread: run the model in the thread of the recording"
    )
    assert "for '2' (LinearAttention), where" in here


@contextmanager
def _nothing_left(model: nn.Module) -> Iterator[None]:
    yield
    assert all(not module._forward_hooks for module in model.modules())


def test_nothing_is_left_behind_and_copies_are_their_own() -> None:
    model = nn.Sequential(LinearAttention())
    with _nothing_left(model), pytest.raises(RuntimeError, match="shapes"), recording(model):
        nn.Sequential(model, nn.Linear(1, 1))(torch.randn(B, L, D))
    with _nothing_left(model), recording(model):
        copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
        for one in copies:
            one(torch.randn(B, L, D))  # not the model: no warning


class Edges(nn.Module):
    """Graph attention over edges, as libraries write it: a softmax over the edges to the same node."""

    def __init__(self, sums: str) -> None:
        super().__init__()
        self.score, self.sums = nn.Linear(D, 2), sums

    def forward(self, x: Tensor) -> Tensor:
        source, target = torch.tensor([[0, 1, 2, 3], [1, 1, 0, 0]])
        powers = self.score(x[0, source]).exp()
        if self.sums == "scatter":
            index = target[:, None].expand(4, 2)
            sums = powers.new_zeros(L, 2).scatter_add_(0, index, powers) + 1e-16
        elif self.sums == "index":
            sums = torch.zeros(L, 2).index_add(0, target, powers)
        else:
            sums = torch.zeros(L, 2).scatter_reduce(0, target[:, None].expand(4, 2), powers, reduce="sum")
        weights = powers / (sums.index_select(0, target) if self.sums == "scatter" else sums[target])
        return torch.zeros(L, D).index_add(0, target, weights.mean(1, keepdim=True) * x[0, source])


@pytest.mark.parametrize("sums", ["scatter", "index", "reduce"])
def test_a_softmax_over_edges_is_named(sums: str) -> None:
    model = nn.Sequential(SelfAttention(), Edges(sums), nn.Unflatten(0, (1, L)), Edges(sums))
    x = torch.randn(B, L, D)
    plain = model(x)
    with pytest.warns(UserWarning, match="edges") as caught, recording(model):
        assert torch.equal(model(x), plain)
    (message,) = [str(one.message) for one in caught]
    assert message.startswith("recording: '1' computes attention in a softmax over the edges of a graph")
    assert "return_attention_weights=True" in message
    assert not _messages(model, names=["0"])


def test_attentive_modules_are_named() -> None:
    class AttentiveStatistics(nn.Linear):
        pass

    (message,) = _messages(AttentiveStatistics(D, D))
    assert "AttentiveStatistics" in message


def test_a_gate_is_not_named() -> None:
    """PatchTSMixer (2306.09364) multiplies features by their softmax."""

    class GatedAttention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.softmax = nn.Linear(D, D), nn.Softmax(dim=-1)

        def forward(self, x: Tensor) -> Tensor:
            return x * self.softmax(self.layer(x))

    class AttentivePooling(GatedAttention):
        """A gate, but summed over the positions, as in ECAPA-TDNN (2005.07143)."""

        def __init__(self) -> None:
            super().__init__()
            self.convolution = nn.Conv1d(D, D, 1)

        def forward(self, x: Tensor) -> Tensor:
            return (x.mT * self.softmax(self.convolution(x.mT))).sum(-1)

    assert not _messages(nn.Sequential(GatedAttention()))
    (message,) = _messages(nn.Sequential(AttentivePooling()))
    assert "for '0' (AttentivePooling), where" in message
    (message,) = _messages(nn.Sequential(GatedAttention(), LinearAttention()))
    assert "for '1' (LinearAttention), where" in message
