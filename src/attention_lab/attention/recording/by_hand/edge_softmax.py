"""A softmax over the edges to each node of a graph, as in torch_geometric, without a matrix of weights."""

import weakref
from typing import Any

from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from attention_lab.attention.recording.by_hand.calls import DIVISION, EXP, TorchCall
from attention_lab.attention.recording.session import Session

_SUMS = {"scatter_add", "scatter_add_", "index_add", "index_add_", "scatter_reduce", "scatter_reduce_"}
_SUMS_OF_EDGES = {"index_select", "gather", "repeat_interleave", "__getitem__", "add", "__add__", "clamp"}
REMEDY = "ask its module for them, as with return_attention_weights=True in torch_geometric"


class EdgeSoftmax:
    """Warns where exponentials of scores are divided by their sums over groups of rows."""

    def __init__(self, session: Session) -> None:
        self._session, self._any = session, False
        self._powers: Any = WeakTensorKeyDictionary()
        self._sums: Any = WeakTensorKeyDictionary()

    def see(self, call: TorchCall, result: Any) -> None:
        """Follow exponentials to their sums, and to the division by these sums."""
        if call.func in EXP:
            self._powers[result] = weakref.ref(result)
            self._any = True
        elif not self._any:
            return
        elif call.name in _SUMS:
            self._follow(call, self._powers, result)
        elif self._sums and call.name in _SUMS_OF_EDGES:
            self._follow(call, self._sums, result)
        elif self._sums and call.func in DIVISION and isinstance(call.args[-1], Tensor):
            of = self._sums.get(call.args[-1])
            site = None if of is None or of() is not call.first else self._session.site()
            if site is not None:
                self._session.warn(site.name, "a softmax over the edges of a graph", REMEDY)

    def _follow(self, call: TorchCall, known: Any, result: Tensor) -> None:
        found = next((known[x] for x in call.tensors() if x in known), None)
        if found is not None:
            self._sums[result] = found
