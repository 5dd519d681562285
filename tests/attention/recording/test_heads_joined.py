"""Heads, examples and windows that share a dimension are distinguished."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attention_lab.attention import recording

B, H, W, L, D = 2, 4, 3, 6, 8


class DotProduct(nn.Module):
    """It does not know the number of heads, as in "Dive into Deep Learning"."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return torch.bmm((q @ k.mT).softmax(-1), v)


class Fused(nn.Module):
    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v)


class Local(nn.Module):
    """Attention in windows of L positions, each with the next."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (x.unflatten(1, (-1, L)) for x in (q, k, v))
        k, v = (torch.cat([x, x.roll(-1, 1)], 2) for x in (k, v))
        return ((q @ k.mT).softmax(-1) @ v).flatten(1, 2)


class Outer(nn.Module):
    def __init__(self, inner: nn.Module, name: str = "n_heads") -> None:
        super().__init__()
        self.inner = inner
        self.projections = nn.Linear(H * D, 3 * H * D)
        setattr(self, name, H)

    def forward(self, x: Tensor, names: list[str] | None = None) -> Tensor:
        parts = [one.unflatten(-1, (H, D)).transpose(1, 2) for one in self.projections(x).chunk(3, -1)]
        q, k, v = (part.flatten(0, 1) for part in parts)
        self.scores = (q @ k.mT).detach()
        x = self.inner(q, k, v)  # the variable no longer holds the input
        return x.unflatten(0, (-1, H)).transpose(1, 2).flatten(2)


@pytest.mark.parametrize("inner", [DotProduct, Fused])
@pytest.mark.parametrize("name", ["num_heads", "n_local_attn_heads"])
@pytest.mark.parametrize("keyword", [False, True])
def test_the_caller_knows_the_heads(inner: type[nn.Module], name: str, keyword: bool) -> None:
    model, x = nn.Sequential(nn.Identity(), Outer(inner(), name)), torch.randn(B, L, H * D)
    with recording(model[1] if keyword else model) as weights:
        model[1](names=None, x=x) if keyword else model(x)
    (found,) = weights.values()
    scale = 1.0 if inner is DotProduct else D**-0.5
    assert torch.allclose(found, (model[1].scores * scale).softmax(-1).unflatten(0, (B, H)), atol=1e-6)


def test_a_number_of_heads_that_does_not_fit_the_examples_is_not_used() -> None:
    """Sixteen examples of one head, and not four of four, even if there are four positions."""

    class Pooled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.num_heads = DotProduct(), H

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x, x, x)  # type: ignore[no-any-return]

    for length in (4, L):
        with recording(model := Pooled()) as weights:
            model(torch.randn(16, length, D))
        assert weights["inner"].shape == (16, 1, length, length)


@pytest.mark.parametrize("name", ["_n_heads", "num_head", "nheads", "head_num", "head_count"])
def test_other_names_of_the_number_of_heads(name: str) -> None:
    class Named(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.bmm((x @ x.mT).softmax(-1), x)

    model = Named()
    setattr(model, name, H)
    with recording(model) as weights:
        model(torch.randn(B * H, L, D))
    assert weights[""].shape == (B, H, L, L)


@pytest.mark.parametrize("examples", [B, H, 2 * H])
def test_images_are_not_taken_for_heads(examples: int) -> None:
    """Each head attends by itself, as in EfficientViT (2305.07027), however many images there are."""

    class Cascade(nn.Module):
        num_heads = H

        def forward(self, x: Tensor) -> Tensor:
            heads = [head.flatten(2).mT for head in x.chunk(H, 1)]
            return torch.cat([(head @ head.mT).softmax(-1) @ head for head in heads], -1)

    with recording(model := Cascade()) as weights:
        model(torch.randn(examples, H * D, 2, 3))
    assert weights[""].shape == (examples, 1, H * 6, 6)


@pytest.mark.parametrize("examples", [1, B, H])
def test_windows_of_images_beside_joined_examples_and_heads(examples: int) -> None:
    """As in HaloNet (2103.12731): `[B * H, windows, L, D]` in a module that knows the number of heads."""

    class Halo(nn.Module):
        num_heads = H

        def forward(self, x: Tensor) -> Tensor:
            x = x.reshape(len(x) * H, D, W, L).permute(0, 2, 3, 1)
            return (x @ x.mT).softmax(-1) @ x

    x = torch.randn(examples, H * D, W, L)
    with recording(model := Halo()) as weights:
        model(x)
    features = x.unflatten(1, (H, D)).permute(0, 3, 1, 4, 2).flatten(0, 1)  # [B * windows, H, L, D]
    assert torch.allclose(weights[""], (features @ features.mT).softmax(-1), atol=1e-6)


@pytest.mark.parametrize("windows", [W, H])
def test_windows_beside_joined_examples_and_heads_are_examples(windows: int) -> None:
    """Also if there are as many of them as heads."""
    model, x = Outer(Local()), torch.randn(B, windows * L, H * D)
    with recording(model) as weights:
        model(x)
    assert weights["inner"].shape == (B * windows, H, L, 2 * L)
    scores = model.scores.unflatten(0, (B, H)).unflatten(-1, (windows, L)).unflatten(2, (windows, L))
    for one in range(windows):
        keys = torch.cat([scores[:, :, one, :, one], scores[:, :, one, :, (one + 1) % windows]], -1)
        assert torch.allclose(weights["inner"][one::windows], keys.softmax(-1), atol=1e-6)


def test_windows_after_the_heads_in_a_fused_kernel() -> None:
    """As in Hiera (2306.00989): `[B, H, windows, L, D]`."""

    class Windows(nn.Module):
        num_heads = H

        def forward(self, x: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(x, x, x)

    x = torch.randn(B, H, W, L, D)
    with recording(model := Windows()) as weights:
        model(x)
    want = (x @ x.mT / D**0.5).softmax(-1).transpose(1, 2).flatten(0, 1)
    assert weights[""].shape == (B * W, H, L, L) and torch.allclose(weights[""], want, atol=1e-6)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("examples", [2, 8])
def test_heads_are_a_dimension_of_their_own(known: bool, examples: int) -> None:
    """Before or after the examples, which may be as many as the positions times the heads."""

    class Inner(nn.Module):
        def forward(self, x: Tensor, heads_first: bool) -> Tensor:
            x = x.transpose(0, 1) if heads_first else x
            weights = (x @ x.mT).softmax(-1)
            self.expected = (weights.transpose(0, 1) if heads_first else weights).detach()
            return weights @ x

    class PositionsFirst(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.n_heads = Inner(), H
            if known:
                self.inner.n_heads = H

        def forward(self, x: Tensor, heads_first: bool) -> Tensor:
            return self.inner(x.unflatten(-1, (H, D)).permute(1, 2, 0, 3), heads_first)  # type: ignore[no-any-return]

    for heads_first in (False, True):
        with recording(model := PositionsFirst()) as weights:
            model(torch.randn(2, examples, H * D), heads_first)
        assert torch.equal(weights["inner"], model.inner.expected)


JOINS: dict[str, Callable[[Tensor], Tensor]] = {
    "viewed": lambda x: x.view(*x.shape[:2], H, D).permute(2, 0, 1, 3).contiguous().view(-1, x.shape[1], D),
    "reshaped": lambda x: x.unflatten(-1, (H, D)).permute(2, 0, 1, 3).reshape(-1, x.shape[1], D),
    "concatenated": lambda x: torch.cat(x.split(D, 2), 0),
    "stacked": lambda x: torch.stack(x.chunk(H, -1)).flatten(0, 1),
    "activated": lambda x: torch.cat(x.split(D, 2)).relu(),
}


@pytest.mark.parametrize("name", JOINS)
@pytest.mark.parametrize("examples", [B, H])
@pytest.mark.parametrize("inner", [False, True])
def test_heads_before_examples(name: str, examples: int, inner: bool) -> None:
    """As in Set Transformer (1810.00825) and many copies of the Transformer; also if they are as many."""

    class HeadsBefore(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.n_head, self.attend = nn.Linear(H * D, H * D), H, DotProduct()

        def forward(self, x: Tensor) -> Tensor:
            x = JOINS[name](self.layer(x))
            self.expected = (x @ x.mT).softmax(-1).unflatten(0, (H, -1)).transpose(0, 1).detach()
            return self.attend(x, x, x) if inner else (x @ x.mT).softmax(-1) @ x  # type: ignore[no-any-return]

    for length in (1, L):
        x = torch.randn(examples, length, H * D)
        with recording(model := HeadsBefore()) as weights:
            model(x)
        (found,) = weights.values()
        assert torch.equal(found, model.expected)


SPLITS: dict[str, Callable[[Tensor], Tensor]] = {
    "one by one": lambda x: torch.cat([one.unflatten(-1, (H, D)).transpose(0, 1) for one in x]),
    "halves": lambda x: torch.cat(x.unflatten(-1, (H, D)).transpose(1, 2).flatten(0, 1).chunk(2)),
    "viewed": lambda x: x.unflatten(-1, (H, D)).transpose(1, 2),
    "stacked": lambda x: torch.stack(x.chunk(H, -1)).transpose(0, 1),
    "expanded": lambda x: x[:1].unflatten(-1, (H, D)).transpose(1, 2).expand(H, H, L, D),
}


@pytest.mark.parametrize("name", SPLITS)
def test_examples_before_heads_that_are_as_many(name: str) -> None:
    class Model(nn.Module):
        n_head = H

        def forward(self, x: Tensor) -> Tensor:
            values = SPLITS[name](x).contiguous().view(-1, L, D)
            x = SPLITS["viewed"](x).flatten(0, 1)
            self.expected = (x @ x.mT).softmax(-1).unflatten(0, (-1, H)).detach()
            return (x @ x.mT).softmax(-1) @ values

    with recording(model := Model()) as weights:
        model(torch.randn(H, L, H * D))
    assert torch.equal(weights[""], model.expected)


def test_examples_may_be_as_many_as_heads_that_share_keys() -> None:
    """Queries of heads with the same keys are in one matrix (2305.13245)."""

    class Grouped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.num_heads, self.num_kv_heads = 4, 2

        def forward(self, x: Tensor) -> Tensor:
            keys = x.unflatten(-1, (2, D)).transpose(1, 2)
            weights = (torch.cat((keys, -keys), 2) @ keys.mT).softmax(-1)
            self.expected = weights.detach()
            return weights @ keys

    with recording(model := Grouped()) as weights:
        model(torch.randn(4, L, 2 * D))
    assert torch.equal(weights[""], model.expected)


@pytest.mark.parametrize("positions", [H, H + 1])
def test_positions_of_one_sequence_are_not_taken_for_examples(positions: int) -> None:
    class Unbatched(Outer):
        def forward(self, x: Tensor, names: list[str] | None = None) -> Tensor:
            q, k, v = (one.unflatten(-1, (H, D)).transpose(0, 1) for one in self.projections(x).chunk(3, -1))
            return F.scaled_dot_product_attention(q, k, v).transpose(0, 1).flatten(1)

    with recording(model := Unbatched(nn.Identity())) as weights:
        model(torch.randn(positions, H * D))
    assert weights[""].shape == (1, H, positions, positions)
