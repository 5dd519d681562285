"""Attention that a model computes from basic operations: softmax, possibly dropout, product with values."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

from attention_lab.attention.recording.by_hand.calls import (
    DISTANCE,
    DIVISION,
    DROPOUT,
    EXP,
    LAYERS,
    LOG_SOFTMAX,
    LOGSUMEXP,
    MIXING,
    SOFTMAX,
    SUBTRACTION,
    SUM,
    Call,
    listed,
)
from attention_lab.attention.recording.by_hand.contractions import PRODUCTS, contraction, factors
from attention_lab.attention.recording.by_hand.followed import Exponentials, Map, Product, Sum, Weights
from attention_lab.attention.recording.fused import four
from attention_lab.attention.recording.session import Session
from attention_lab.attention.recording.site import Site
from attention_lab.attention.recording.weights import attended


class ByHand:
    """Follows normalised scores until they are multiplied with values.

    Scores are normalised by a softmax, or their exponentials by a division by their sum. They count as
    attention if the product sums over the normalised dimension, and its other factor depends on the example.
    This excludes the softmax of a classifier or a router. If the scores are no products, the other factor may
    not be a product either: this excludes the features of linear attention (2006.16236). There must also be
    as many heads as the module says: this excludes mixtures of experts, layers or kernels for each position.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: Any = WeakTensorKeyDictionary()

    def call(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function, and follow its result."""
        call = Call(func, args, kwargs)
        if func in PRODUCTS or func in DISTANCE:
            result = call()
            self._product(call, result)
        elif func in SOFTMAX or func in LOG_SOFTMAX:
            result = call()
            dim = call.dim(call.first)
            if dim is not None and call.first.dim() > 1:
                self._softmax(call.first, dim, result, logarithm=func in LOG_SOFTMAX)
        elif func in EXP:
            result = self._exponentials(call)
        elif func in LOGSUMEXP or (self._known and func in SUM):
            result = self._sum(call)
        elif self._known and (func in DIVISION or func in SUBTRACTION) and self._total(call) is not None:
            result = self._normalised(call)
        elif self._known:
            result = self._follow(call)
        else:
            result = call()
        return result

    def _softmax(self, scores: Tensor, key: int, result: Tensor, *, logarithm: bool) -> None:
        site = self._session.site()
        if site is not None:
            with torch._C.DisableTorchFunction(), torch.no_grad():
                mask = attended(scores.detach())
            paired = isinstance(self._known.get(scores), Product)
            found = Map(site, paired, result.detach(), mask, result.shape[key])
            self._known[result] = Weights(found, key, mask, logarithm=logarithm)

    def _exponentials(self, call: Call) -> Any:
        known = self._known.get(call.first)
        result = call()
        if isinstance(known, Weights) and known.logarithm:
            known.map.weights = result.detach()
            self._known[result] = replace(known, logarithm=False)
        elif result.dim() > 1:
            self._known[result] = Exponentials(isinstance(known, Product))
        return result

    def _sum(self, call: Call) -> Any:
        result, of = call(), call.first
        dim = call.dim(of)
        of_weights = isinstance(self._known.get(of), Exponentials | Weights)
        if dim is not None and (of_weights or call.func in LOGSUMEXP):
            self._known[result] = Sum(of, dim)
        return result

    def _total(self, call: Call) -> Sum | None:
        """What a tensor is divided by, or what is subtracted from scores, if that normalises them."""
        if len(call.args) != 2 or not isinstance(call.args[1], Tensor):
            return None
        total = self._known.get(call.args[1])
        return total if isinstance(total, Sum) and total.of is call.first else None

    def _normalised(self, call: Call) -> Any:
        """Divide exponentials or weights by their sum, or subtract their logsumexp from scores."""
        total, known = self._total(call), self._known.get(call.first)
        assert total is not None
        result = call()
        if isinstance(known, Weights):
            self._known[result] = replace(known, key=total.key, before=None)
        elif isinstance(known, Exponentials):
            site = self._session.site()
            if site is not None:
                found = Map(site, known.paired, result.detach(), None, result.shape[total.key])
                self._known[result] = Weights(found, total.key, None)
        else:
            self._softmax(call.first, total.key, result, logarithm=True)
        return result

    def _follow(self, call: Call) -> Any:
        """Call a function, whose result may be of the same kind as its argument."""
        tensors = [x for x in call.tensors() if x in self._known]
        if not tensors:
            return call()
        found = next((x for x in tensors if isinstance(self._known[x], Weights)), tensors[0])
        known = self._known[found]
        if isinstance(known, Weights):
            return self._follow_weights(known, found, call) if call.is_of_weights else call()
        result = call()
        for one in listed(result):
            if not isinstance(one, Tensor) or not one.is_floating_point():
                continue
            if isinstance(known, Product) and call.func not in LAYERS:
                self._known[one] = known if call.keeps_product else Product(plain=False)
            elif not isinstance(known, Product) and call.is_of_weights:
                self._known[one] = known
        return result

    def _follow_weights(self, weights: Weights, found: Tensor, call: Call) -> Any:
        if call.func in DROPOUT and weights.before is None:
            # In-place dropout overwrites the weights from before.
            inplace = call.func is torch.dropout_ or call.kwargs.get(
                "inplace", len(call.args) > 3 and call.args[3]
            )
            weights = replace(weights, before=found.detach().clone() if inplace else found.detach())
        shape = found.shape
        result = call()
        if not isinstance(result, Tensor) or not result.is_floating_point():
            return result
        with torch._C.DisableTorchFunction(), torch.no_grad():
            key: int | None = weights.key
            mask = weights.mask
            if call.is_view:
                key = call.moved(weights.key, found)
                mask = None if mask is None or key is None else call.of(found, mask)
            elif call.func in MIXING:
                summed = -3 if call.func is torch.conv2d else -1
                key = None if key == summed or found is not call.first else key
                mask = None
            elif result.shape != shape:
                key = None
            if key is None:
                return result
            before = weights.before
            if before is not None and call.func not in DROPOUT:
                # The model may still need the weights from before.
                before = call.of(found, before.clone() if call.in_place else before)
        self._known[result] = replace(weights, key=key, mask=mask, before=before)
        return result

    def _product(self, call: Call, result: Tensor) -> None:
        """Record weights that are multiplied with values; follow those whose heads are mixed."""
        both = factors(call)
        if len(both) != 2:
            return
        for place, factor in enumerate(both):
            weights = self._known.get(factor) if call.func in PRODUCTS else None
            if isinstance(weights, Weights) and not weights.logarithm:
                del self._known[factor]
                how = contraction(call, both, place, weights.key)
                if how.kept is not None:
                    self._known[result] = replace(weights, key=how.kept, mask=None, before=None)
                elif how.order and _of_example(both[1 - place], factor):
                    self._multiplied(weights, factor.detach(), how.order, both[1 - place], result)
                return
        if all(_of_example(x, x) for x in both):
            self._known[result] = Product()

    def _multiplied(
        self, weights: Weights, values: Tensor, order: tuple[int, ...], other: Tensor, result: Tensor
    ) -> None:
        """Record weights, whose dimensions are put in this order, times another factor."""
        known, found = self._known.get(other), weights.map
        if isinstance(known, Weights):  # a composition of two maps, which is not yet multiplied with values
            return
        if isinstance(known, Product) and known.plain and not found.paired:
            if known.forget is not None:  # keys times values of linear attention, now multiplied with queries
                known.forget()
            return
        if not found.paired and not _has_heads_of(found.site, values, order):
            return
        mask = weights.mask
        if weights.before is not None:
            values = weights.before
        is_part = values.dim() == found.weights.dim() and values.numel() < found.weights.numel()
        if found.forget is not None:
            if not is_part:
                return
            found.forget()
        if is_part and (found.forget is not None or values.shape[weights.key] == found.keys):
            values, mask = found.weights, found.mask  # parts are multiplied one by one: record all of them
        with torch._C.DisableTorchFunction(), torch.no_grad():
            mask = None if mask is None or mask.shape != values.shape else _four(mask, order, found.site)
            found.forget = self._session.record_weights(found.site, _four(values, order, found.site), mask)
        if not found.paired:
            self._known[result] = Product(forget=found.forget)


def _of_example(x: Tensor, weights: Tensor) -> bool:
    """Whether a factor may depend on the example: it has a dimension for examples, or no factor has one."""
    if isinstance(x, nn.Parameter) or x.dim() < 2:
        return False
    return x.dim() > 2 if weights.dim() > 2 else not isinstance(x._base, nn.Parameter)


def _has_heads_of(site: Site, x: Tensor, order: tuple[int, ...]) -> bool:
    """Whether weights have one head, or as many as their module says: mixtures for each position have not."""
    heads = site.number_of_heads
    return heads in (None, 1) if x.dim() < 4 else _four(x, order, site).shape[1] == heads


def _four(x: Tensor, order: tuple[int, ...], site: Site) -> Tensor:
    """Weights as `[B, H, Q, K]`. Of several other dimensions, that of heads is the one of their number."""
    x = x.permute(order)
    if x.dim() == 3:
        return four(x, site.heads(len(x)))
    if x.dim() > 4:
        heads = site.number_of_heads
        if x.shape[1:-2].numel() == heads:  # heads in groups
            return x.flatten(1, -3)
        dims = [dim for dim in range(1, x.dim() - 2) if x.shape[dim] == heads]
        x = x.movedim(dims[0], -3) if len(dims) == 1 else x
    return four(x, 1)
