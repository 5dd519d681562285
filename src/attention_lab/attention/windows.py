"""Windows: which keys a query may attend to by position, and how weights fall off inside the window."""

import math
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attention_lab.argument_checks import check_heads, check_number
from attention_lab.attention.masks import distances
from attention_lab.attention.scores.projection import project
from attention_lab.attention.torch_state import without_autocast
from attention_lab.errors import LabError

FALLOFFS = ("none", "gaussian")
"""How the weights inside a window depend on the distance from its centre; see `falloff_factor`."""


class Span(NamedTuple):
    """The effect of a window on the keys.

    Attributes:
        mask: boolean, broadcastable to `[..., Q, K]`, True = inside; None if every key is inside.
        factor: multiplies the weights after normalisation, `[..., Q, K]`; None for 1.
        centre: predicted centre of each query's window, `[..., Q, 1]`; None if it is not predicted.
    """

    mask: Tensor | None = None
    factor: Tensor | None = None
    centre: Tensor | None = None


@runtime_checkable
class Window(Protocol):
    """Maps queries `[..., Q, dq]`, the first at position `offset`, and the number of keys K to a `Span`.

    `visible` is the mask without the window; None if all keys are visible.
    """

    def __call__(self, query: Tensor, keys: int, visible: Tensor | None, offset: int) -> Span:
        """The span of every query."""


def falloff_factor(distance: Float[Tensor, "..."], width: int | float, falloff: str) -> Tensor | None:
    """The factor on the weights of a window `|distance| <= D`; None for a factor of 1.

    `gaussian` is `exp(-distance^2 / (2 sigma^2))` with `sigma = D / 2` (1508.04025, eq. 10): 1 in the centre,
    `exp(-2)` at the edge. It is applied after normalisation, so a row then sums to less than 1.
    """
    return None if falloff == "none" else torch.exp(distance.square() * (-2 / width**2))


def check_falloff(falloff: str, width: int | float) -> None:
    """Raise LabError for an unknown fall-off, or if sigma's square would be 0 or overflow."""
    if falloff not in FALLOFFS:
        raise LabError(f"window.falloff={falloff} is unknown: choose {', '.join(FALLOFFS)}")
    if falloff != "none" and not (1e-9 <= width <= 1e9 or width == math.inf):
        raise LabError(
            f"window.falloff={falloff} has sigma = width / 2: "
            f"window.width must be from 1e-9 to 1e9, or inf, got {width}"
        )


class Global(nn.Module):
    """No window: every key is inside."""

    def __init__(self, query_size: int, heads: int | None = None) -> None:
        super().__init__()
        self.query_size = query_size

    def forward(self, query: Tensor, keys: int, visible: Tensor | None, offset: int) -> Span:
        """Every key, with its weight unchanged."""
        return Span()


class Band(nn.Module):
    """The keys around the query's own position t: `|j - t| <= D`.

    In a decoder this is monotonic local attention, local-m, with `p_t = t` (1508.04025, section
    3.2); in an encoder it is the band of windowed self-attention (2004.05150, section 3.1). In both, all keys
    of the band count equally. With `falloff=gaussian` weights fall off with the distance, as in local-p:

        a_t(j) exp(-(j - t)^2 / (2 (D/2)^2))

    after the weights have been normalised over the band, so a row sums to less than 1, unless its only key is
    the one at its own position.

    Args:
        query_size: the query size of the score; unused, as the window depends only on positions.
        heads: unused.
        width: D, the number of positions on either side.
        falloff: `none` or `gaussian`.
    """

    def __init__(
        self, query_size: int, heads: int | None = None, *, width: int = 5, falloff: str = "none"
    ) -> None:
        super().__init__()
        check_number("window.width", width, least=0, whole=True)
        check_falloff(falloff, width)
        self.query_size, self.width, self.falloff = query_size, width, falloff

    def extra_repr(self) -> str:
        """The options, for `print(model)`."""
        return f"width={self.width}, falloff={self.falloff}"

    def forward(self, query: Tensor, keys: int, visible: Tensor | None, offset: int) -> Span:
        """The keys of the band, with unchanged weights or weights that fall off with the distance."""
        distance = distances(query.shape[-2], keys, query.device, offset=offset)
        return Span(distance.abs() <= self.width, self.factor(distance, query.dtype))

    def factor(self, distance: Int[Tensor, "..."], dtype: torch.dtype) -> Float[Tensor, "..."] | None:
        """The factor on weights at these distances, never in half precision; None for 1."""
        if self.falloff == "none":
            return None
        wide = distance.to(torch.promote_types(dtype, torch.float32))
        return falloff_factor(wide, self.width, self.falloff)


class LocalP(nn.Module):
    """Predictive local attention, local-p (1508.04025, eq. 9 and 10).

        p_t = S sigmoid(v^T tanh(W h_t)),   |j - p_t| <= D,   a_t(j) exp(-(j - p_t)^2 / (2 (D/2)^2))

    with S the number of keys that the query may see. The weights are normalised over the window before the
    multiplication, so a row sums to less than one. Key positions start at 0.

    With `falloff=none` the keys of the window count equally and rows sum to one. The predictor then has no
    gradient, so its parameters are frozen and the windows stay where they were initialised.

    The parameters are `W sqrt(d)` and `v sqrt(d)`, with d the size of h_t. Adam moves each entry by about the
    learning rate, however small the gradient: with W and v themselves as parameters, a few steps can move p_t
    to an end of the source, where the sigmoid has no gradient.

    Args:
        query_size: size of h_t.
        heads: if given, a predictor for each head.
        width: D.
        falloff: `gaussian` or `none`.
    """

    def __init__(
        self,
        query_size: int,
        heads: int | None = None,
        *,
        width: int | float = 2.0,
        falloff: str = "gaussian",
    ) -> None:
        super().__init__()
        check_number("query_size", query_size, least=1, whole=True)
        check_heads(heads=heads)
        check_number("window.width", width, above=0)
        check_falloff(falloff, width)
        self.query_size, self.width, self.falloff = query_size, width, falloff
        leading = () if heads is None else (heads,)
        weight = torch.randn(*leading, query_size, query_size)
        vector = torch.randn(*leading, query_size, 1)
        trained = falloff != "none"  # training in several processes rejects parameters without a gradient
        self.scaled_weight = nn.Parameter(weight, requires_grad=trained)
        self.scaled_vector = nn.Parameter(vector, requires_grad=trained)

    def extra_repr(self) -> str:
        """The options, for `print(model)`."""
        return f"width={self.width}, falloff={self.falloff}"

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Load the parameters; in older checkpoints they are W and v themselves."""
        for name in ("weight", "vector"):
            if (plain := state_dict.pop(prefix + name, None)) is not None:
                state_dict[f"{prefix}scaled_{name}"] = plain * self.query_size**0.5
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def position(
        self, query: Float[Tensor, "... Q d"], keys: int, visible: Bool[Tensor, "..."] | None
    ) -> Float[Tensor, "... Q 1"]:
        """`p_t`, from 0 to the number S of visible keys; never in half precision, which would miss keys."""
        dtype = torch.promote_types(query.dtype, torch.float32)
        with without_autocast(query):
            query, weight, vector = (x.to(dtype) for x in (query, self.scaled_weight, self.scaled_vector))
            scale = query.shape[-1] ** -0.5
            share = torch.sigmoid(torch.tanh(project(query, weight) * scale) @ vector * scale)
        if visible is None:
            return share * keys
        seen = visible.expand(*visible.shape[:-1], keys)  # may have one column for all keys
        count = seen.sum(-1, keepdim=True).to(dtype)
        return (share * count).masked_fill(count == 0, 0.0)  # even if the query is NaN

    def forward(self, query: Tensor, keys: int, visible: Tensor | None, offset: int) -> Span:
        """The keys around the predicted position, by default with weights that fall off with the distance."""
        centre = self.position(query, keys, visible)
        distance = torch.arange(keys, device=query.device, dtype=centre.dtype) - centre
        factor = falloff_factor(distance, self.width, self.falloff)
        return Span(distance.abs() <= self.width, factor, centre)
