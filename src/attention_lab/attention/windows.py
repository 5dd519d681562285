"""Windows: which keys a query may attend to by their position, and how the weights fall off within."""

from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attention_lab.attention.masks import band_mask
from attention_lab.errors import LabError


class Span(NamedTuple):
    """What a window leaves of the keys.

    Attributes:
        mask: boolean, broadcastable to `[..., Q, K]`, True = inside; None if every key is.
        factor: of the weights after normalisation, `[..., Q, K]`; None if it is 1.
        centre: position about which a query looks, `[..., Q, 1]`, if it is predicted.
    """

    mask: Tensor | None = None
    factor: Tensor | None = None
    centre: Tensor | None = None


@runtime_checkable
class Window(Protocol):
    """Looks at the queries `[..., Q, dq]`, the first of which is at position `offset`, and K keys.

    `visible` is the mask that stands without the window, None if every key may be attended.
    """

    def __call__(self, query: Tensor, keys: int, visible: Tensor | None, offset: int) -> Span:
        """The span of every query."""


class Global(nn.Module):
    """No window: every key is inside."""

    def __init__(self, query_size: int, heads: int | None = None) -> None:
        super().__init__()

    def forward(self, query: Tensor, keys: int, visible: Tensor | None, offset: int) -> Span:
        """Every key, at its own weight."""
        return Span()


class Band(nn.Module):
    """The keys around the query's own position t: `|j - t| <= D`.

    In a decoder this is the monotonic local attention, local-m, with `p_t = t` (1508.04025, section
    3.2); in an encoder the band of windowed self-attention (2004.05150, section 3.1).

    Args:
        query_size: unused, as the window depends on positions alone.
        heads: unused.
        width: D, a whole number of positions to either side.
    """

    def __init__(self, query_size: int, heads: int | None = None, *, width: int = 5) -> None:
        super().__init__()
        if width < 0:
            raise LabError(f"window.width must be at least 0, got {width}")
        self.width = width

    def forward(self, query: Tensor, keys: int, visible: Tensor | None, offset: int) -> Span:
        """The keys of the band, at their own weight."""
        return Span(band_mask(query.shape[-2], keys, self.width, query.device, offset=offset))


class LocalP(nn.Module):
    """Predictive local attention, local-p (1508.04025, eq. 9 and 10).

        p_t = S sigmoid(v^T tanh(W h_t)),   |j - p_t| <= D,   a_t(j) exp(-(j - p_t)^2 / (2 (D/2)^2))

    with S the number of keys that the query may see. The weights are normalised over the window and
    then multiplied, so that a row sums below one. Keys count from 0.

    Args:
        query_size: size of h_t.
        heads: a predictor for each head where given.
        width: D.
    """

    def __init__(self, query_size: int, heads: int | None = None, *, width: int | float = 2.0) -> None:
        super().__init__()
        if not width > 0:
            raise LabError(f"window.width must be above 0, got {width}")
        self.width = width
        leading = () if heads is None else (heads,)
        self.weight = nn.Parameter(torch.randn(*leading, query_size, query_size) * query_size**-0.5)
        self.vector = nn.Parameter(torch.randn(*leading, query_size, 1) * query_size**-0.5)

    def position(
        self, query: Float[Tensor, "... Q d"], keys: int, visible: Bool[Tensor, "..."] | None
    ) -> Float[Tensor, "... Q 1"]:
        """`p_t`, from 0 to the number S of visible keys; never in half precision, which would miss keys."""
        dtype = torch.promote_types(query.dtype, torch.float32)
        with torch.autocast(query.device.type, enabled=False):
            query, weight, vector = (x.to(dtype) for x in (query, self.weight, self.vector))
            share = torch.sigmoid(torch.tanh(query @ weight.mT) @ vector)
        return share * (keys if visible is None else visible.sum(-1, keepdim=True).to(dtype))

    def forward(self, query: Tensor, keys: int, visible: Tensor | None, offset: int) -> Span:
        """The keys about the predicted position, weaker the farther from it."""
        centre = self.position(query, keys, visible)
        distance = torch.arange(keys, device=query.device, dtype=centre.dtype) - centre
        factor = torch.exp(distance.square() * (-2 / self.width**2))
        return Span(distance.abs() <= self.width, factor, centre)
