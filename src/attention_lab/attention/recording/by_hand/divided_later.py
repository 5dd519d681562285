"""Exponentials of scores that are multiplied with values first, and divided by their sum afterwards."""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from attention_lab.attention.recording.by_hand.calls import DIVISION, TorchCall
from attention_lab.attention.recording.by_hand.contractions import PRODUCTS, contraction, factors
from attention_lab.attention.recording.by_hand.known_tensors import (
    Exponentials,
    Product,
    Scores,
    Sum,
    Weighted,
)
from attention_lab.attention.recording.by_hand.scores import scores_over
from attention_lab.attention.recording.by_hand.unknown_normalizers import recognised
from attention_lab.attention.recording.session import Session


class _Undivided(NamedTuple):
    """Exponentials `[..., Q, K]` times values, as `[..., Q, d]`."""

    powers: Tensor
    scores: Product | Scores | None
    values: Tensor


class DividedLater:
    """Follows such products to the division.

    Args:
        session: the recording.
        known: what is known of tensors.
    """

    def __init__(self, session: Session, known: Any) -> None:
        self._session, self._known = session, known
        self._undivided: Any = WeakTensorKeyDictionary()

    def see(self, call: TorchCall, result: Any) -> Weighted | None:
        """Note a product with exponentials; where one is divided by their sum, the weights times values."""
        if call.func in PRODUCTS and self._known:
            both = factors(call)
            known = self._known.get(both[0]) if len(both) == 2 else None
            if isinstance(known, Exponentials) and both[0].dim() > 1:
                how = contraction(call, both, 0, -1)
                if how.order == tuple(range(both[0].dim())) and how.query == -2:
                    self._undivided[result] = _Undivided(both[0], scores_over(known.scores, -1), both[1])
        elif self._undivided and call.func in DIVISION:
            found, total = self._undivided.get(call.first), call.args[-1]
            if found is not None and isinstance(total, Tensor):
                return self._divided(found, total)
        return None

    def _divided(self, found: _Undivided, total: Tensor) -> Weighted | None:
        """The weights, if the exponentials are divided by the sum over all keys, not over some of them."""
        known, powers = self._known.get(total), found.powers
        if not isinstance(known, Sum) or known.of is not powers or known.key != -1:
            return None
        if total.shape != (*powers.shape[:-1], 1):
            return None
        with torch._C.DisableTorchFunction(), torch.no_grad():
            factor = powers.detach() / total.detach()
        weights = recognised(self._session, found.scores, factor, lambda: (-1,))
        if weights is None:
            return None
        return Weighted(weights, factor, tuple(range(factor.dim())), found.values, pooled=False, query=-2)
