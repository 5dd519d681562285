"""Attention that a model computes from basic operations: softmax, possibly dropout, product with values."""

import weakref
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from attention_lab.attention.recording.by_hand.calls import (
    COMPARISONS,
    CONVOLUTIONS,
    DIVISION,
    DROPOUT,
    EXP,
    LAYERS,
    LINEAR,
    LOG_SOFTMAX,
    LOGSUMEXP,
    MULTIPLICATION,
    SOFTMAX,
    SUBTRACTION,
    SUM,
    TorchCall,
    called,
    listed,
)
from attention_lab.attention.recording.by_hand.changed_weights import (
    as_map,
    in_map,
    key_and_mask,
    mixed,
    with_zeros_masked,
    zeros,
)
from attention_lab.attention.recording.by_hand.contractions import (
    PRODUCTS,
    contraction,
    factors,
    summed,
)
from attention_lab.attention.recording.by_hand.divided_later import DividedLater
from attention_lab.attention.recording.by_hand.edge_softmax import EdgeSoftmax
from attention_lab.attention.recording.by_hand.elementwise import possible_keys, times_values
from attention_lab.attention.recording.by_hand.heads_first import HeadsFirst
from attention_lab.attention.recording.by_hand.known_tensors import (
    Exponentials,
    Map,
    Product,
    Scores,
    Sum,
    Weighted,
    Weights,
    is_composed,
    is_plain,
    was_recorded,
)
from attention_lab.attention.recording.by_hand.scores import (
    depend_on_example,
    is_of_positions,
    of_layer,
    of_product,
    scores_after,
    scores_over,
)
from attention_lab.attention.recording.by_hand.times_values import of_example, record_times_values
from attention_lab.attention.recording.by_hand.unknown_normalizers import recognised
from attention_lab.attention.recording.session import Session
from attention_lab.attention.recording.weights import attended_scores


class ByHand:
    """Follows normalised scores until they are multiplied with values.

    A softmax normalises the scores; or their exponentials are divided by their sum, before or after the
    product with values; or an unknown function normalises them, as the values of its result show. They count
    as attention if the product sums over the normalised dimension, and its other factor depends on the
    example. This excludes the softmax of a classifier or a router. If the scores are not products, the other
    factor must not be a product either, which excludes the features of linear attention (2006.16236). There
    must be as many heads as the module declares, which excludes mixtures, at each position, of experts,
    layers or kernels. Where weights have no dimension for queries, or are multiplied elementwise with values
    before the sum, each score must be a product, or an output of a layer for that position: a router
    normalises over the outputs.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: Any = WeakTensorKeyDictionary()
        self._edges, self._divided_later = EdgeSoftmax(session), DividedLater(session, self._known)
        self._heads_first = HeadsFirst()
        # The last elementwise product of two tensors that depend on the example, and of one and a vector.
        self._elementwise_product: Callable[[], Tensor | None] = lambda: None
        self._times_vector: Callable[[], Tensor | None] = lambda: None

    def call(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function, and follow its result."""
        call = called(func, args, kwargs)
        result = self._call(call)
        self._edges.see(call, result)
        self._heads_first.see(call, result)
        product = self._divided_later.see(call, result)
        if product is not None:
            self._record(product, result)
        return result

    def _call(self, call: TorchCall) -> Any:
        func = call.func
        if func in PRODUCTS or func in COMPARISONS:
            result = call()
            self._product(call, result)
        elif func in SOFTMAX or func in LOG_SOFTMAX:
            result = call()
            dim = call.softmax_dim
            if dim is not None and call.first.dim() > 1:
                self._softmax(call.first, dim, result, logarithm=func in LOG_SOFTMAX)
        elif func in EXP:
            result = self._exponentials(call)
        elif func in LOGSUMEXP or func in SUM:
            result = self._sum(call)
        elif self._known and (func in DIVISION or func in SUBTRACTION) and self._total(call) is not None:
            result = self._normalised(call)
        else:
            if func in DROPOUT and (
                weights := self._weights(call.first, lambda: range(-1, -call.first.dim(), -1))
            ):
                self._known[call.first] = weights
            result = self._follow(call) if self._known else call()
            if func in MULTIPLICATION:
                self._elementwise(factors(call), result)
            elif func in LINEAR | CONVOLUTIONS and self._known.get(result) is None:
                x, matrix, *_ = factors(call)
                self._keep(result, of_layer(x, matrix, result))
        return result

    def _softmax(self, scores: Tensor, key: int, result: Tensor, *, logarithm: bool) -> None:
        site = self._session.site()
        if site is not None:
            with torch._C.DisableTorchFunction(), torch.no_grad():
                # `torch.softmax(scores, -1, out=scores)` has overwritten them.
                mask = None if result is scores else attended_scores(scores.detach(), key)
            known = scores_over(self._known.get(scores), key)
            found = Map(site, known, result.detach(), mask, result.shape[key])
            self._known[result] = Weights(found, key, mask, logarithm=logarithm)

    def _exponentials(self, call: TorchCall) -> Any:
        known = self._known.get(call.first)
        result = call()
        if isinstance(known, Weights) and known.logarithm:
            known.map.weights = result.detach()
            self._known[result] = replace(known, logarithm=False)
        elif result.dim() > 1:
            known = known.after(call, call.first) if isinstance(known, Product) else known
            self._known[result] = Exponentials(known if isinstance(known, Product | Scores) else None)
        return result

    def _sum(self, call: TorchCall) -> Any:
        result, of = call(), call.first
        dim, known = call.dim(of), self._known.get(of)
        if dim is None:
            return result
        if isinstance(known, Exponentials | Weights) or call.func in LOGSUMEXP:
            self._known[result] = Sum(of, dim)
            if isinstance(known, Weights) and dim == known.key:  # no gate: pooling of each feature
                self._session.gates.discard(known.map.site.name)
        elif of is self._elementwise_product():
            self._known[result] = Product(plain=False, batched=True)
        elif dim == -1 and of is self._times_vector():
            self._known[result] = Scores()
        elif isinstance(known, Weighted) and dim == known.key:
            self._record(known, result)
        return result

    def _total(self, call: TorchCall) -> Sum | None:
        """The sum by which a tensor is divided, or the logsumexp subtracted from scores; None for others."""
        last = call.args[-1] if call.args else None
        total = self._known.get(last) if isinstance(last, Tensor) else None
        return total if isinstance(total, Sum) and total.of is call.first else None

    def _normalised(self, call: TorchCall) -> Any:
        """Divide exponentials or weights by their sum, or subtract their logsumexp from scores."""
        total, known = self._total(call), self._known.get(call.first)
        assert total is not None
        result = call()
        if isinstance(known, Weights):
            self._known[result] = as_map(replace(known, key=total.key, before=None), result)
        elif isinstance(known, Exponentials):
            site = self._session.site()
            if site is not None:
                scores = scores_over(known.scores, total.key)
                found = Map(site, scores, result.detach(), None, result.shape[total.key])
                self._known[result] = Weights(found, total.key, None)
        else:
            self._softmax(call.first, total.key, result, logarithm=True)
        return result

    def _follow(self, call: TorchCall) -> Any:
        """Call a function whose result may be the same kind of tensor as its argument, such as weights."""
        tensors = [x for x in call.tensors() if x in self._known]
        if not tensors:
            return call()
        # Weights that were already multiplied with values may enter new scores, as a coverage vector does.
        tensors = [x for x in tensors if not was_recorded(self._known[x])] or tensors
        found = next((x for x in tensors if isinstance(self._known[x], Weights)), tensors[0])
        known = self._known[found]
        if isinstance(known, Weights):
            return self._follow_weights(known, found, call) if call.is_of_weights else call()
        result = call()
        for one in listed(result):
            if not isinstance(one, Tensor) or not one.is_floating_point():
                continue
            if isinstance(known, Product) and call.func not in LAYERS:
                self._known[one] = known.after(call, found)
            elif isinstance(known, Scores):
                self._keep(one, scores_after(call, known, found, one))
            elif isinstance(known, Exponentials | Sum) and call.is_of_weights:
                self._known[one] = known
        return result

    def _weights(self, x: Tensor, dims: Callable[[], Iterable[int]]) -> Weights | None:
        """What is known of weights, or scores that an unknown function has normalised over one of `dims`."""
        known = self._known.get(x)
        if isinstance(known, Weights):
            return None if known.logarithm else known
        known = known.scores if isinstance(known, Exponentials) else known
        if is_composed(known) or not (known == Scores() or (isinstance(known, Product) and not known.plain)):
            return None
        return recognised(self._session, known, x, dims)

    def _follow_weights(self, weights: Weights, found: Tensor, call: TorchCall) -> Any:
        if call.func in DROPOUT and weights.before is None:
            # In-place dropout overwrites the weights that it is given.
            weights = replace(weights, before=found.detach().clone() if call.in_place else found.detach())
        zero = zeros(weights, found) if call.may_mask else None
        result = call()
        if not isinstance(result, Tensor) or not result.is_floating_point() or not is_plain(result):
            return result
        with torch._C.DisableTorchFunction(), torch.no_grad():
            key, mask = key_and_mask(weights, call, found, result)
            if key is None:
                return result
            before = weights.before
            if before is not None and call.func not in DROPOUT:
                # The model may still need the weights before dropout.
                before = call.of(found, before.clone() if call.in_place else before)
        now = replace(weights, key=key, mask=mask, before=before)
        now = now if zero is None else with_zeros_masked(now, result, zero)
        self._known[result] = in_map(now, result, call, found, weights.key)
        return result

    def _product(self, call: TorchCall, result: Tensor) -> None:
        """Record weights that are multiplied with values; follow those whose heads are mixed."""
        both = factors(call)
        if len(both) != 2:
            return
        for place, factor in enumerate(both if call.func in PRODUCTS else ()):
            weights = self._weights(factor, partial(summed, call, both, place))
            if weights is not None:
                del self._known[factor]
                how, other = contraction(call, both, place, weights.key), both[1 - place]
                if is_composed(self._known.get(other)):
                    self._known[result] = Product(plain=False, composed=True)
                elif how.kept is not None:
                    self._known[result] = as_map(mixed(weights, call, factor, how.kept), result)
                elif how.order:
                    pooled = len(how.order) > factor.dim()
                    self._record(Weighted(weights, factor, how.order, other, pooled, how.query), result)
                return
        self._keep(result, of_product(call, both, [self._known.get(x) for x in both], result))

    def _elementwise(self, both: list[Tensor], result: Tensor) -> None:
        """Remember an elementwise product that the model may sum next."""
        if len(both) < 2:
            return
        for factor, values in (both, both[::-1]) if self._known else ():
            weights = self._weights(factor, partial(possible_keys, factor, values))
            if weights is not None:
                product = times_values(weights, factor, values)
                if product is not None:
                    self._known[result] = product
                elif factor.shape == values.shape and weights.key == -1 and weights.map.scores is None:
                    self._session.gates.add(weights.map.site.name)
                return
        if depend_on_example(both):
            self._elementwise_product = weakref.ref(result)
        elif is_of_positions(*both) or is_of_positions(*both[::-1]):
            self._times_vector = weakref.ref(result)

    def _record(self, product: Weighted, result: Tensor) -> None:
        """Record weights times values, and keep what is then known of the result."""
        if of_example(product.values, product.factor):
            known, turned = self._known.get(product.values), product.values in self._heads_first
            self._keep(result, record_times_values(self._session, product, known, heads_first=turned))

    def _keep(self, x: Tensor, known: Product | Scores | None) -> None:
        """Keep what is known of a tensor, if anything is."""
        if known is not None:
            self._known[x] = known
