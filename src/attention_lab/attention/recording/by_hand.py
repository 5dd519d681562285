"""Attention that a model computes from basic operations: softmax, possibly dropout, product with values."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

from attention_lab.attention.recording.fused import four
from attention_lab.attention.recording.session import Session
from attention_lab.attention.recording.site import Site
from attention_lab.attention.recording.weights import attended

_SOFTMAX = {torch.softmax, F.softmax, Tensor.softmax, torch.special.softmax}
_DROPOUT = {F.dropout, torch.dropout, torch.dropout_}
_PRODUCT = {torch.matmul, Tensor.matmul, Tensor.__matmul__, Tensor.__rmatmul__, torch.bmm, Tensor.bmm}
_PRODUCT |= {torch.einsum, torch.baddbmm, Tensor.baddbmm}
# Functions that reshape or cast weights between softmax and product; also applied to those before dropout.
_SHAPING = {"to", "type", "type_as", "float", "half", "bfloat16", "double", "contiguous", "clone", "detach"}
_SHAPING |= {"view", "reshape", "flatten", "unflatten", "unsqueeze", "squeeze", "expand", "narrow"}
_SHAPING |= {"__getitem__", "masked_fill", "masked_fill_", "nan_to_num", "where"}
_SHAPING |= {"mul", "mul_", "__mul__", "__rmul__", "__imul__"}


@dataclass(frozen=True)
class _Weights:
    """The result of a softmax, possibly after dropout, that has not yet been multiplied with values.

    Attributes:
        site: the module that computes them.
        mask: of the selected part.
        before: the weights before dropout; None if there was no dropout.
    """

    site: Site
    mask: Tensor | None
    before: Tensor | None = None


class ByHand:
    """Follows the results of softmaxes until they are multiplied with values.

    A softmax over the last of three or four dimensions counts as attention if it is multiplied with something
    that has an example dimension and is not itself a product. This excludes the softmax of a classifier or a
    router, and the features of linear attention (2006.16236).
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._weights: Any = WeakTensorKeyDictionary()
        self._products: Any = WeakTensorKeyDictionary()

    def call(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function, and follow its result."""
        if func in _SOFTMAX:
            result = func(*args, **kwargs)
            scores = args[0] if args else kwargs["input"]
            dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
            if scores.dim() in (3, 4) and dim in (-1, scores.dim() - 1):
                self._softmax(scores, result)
            return result
        if func in _PRODUCT:
            result = func(*args, **kwargs)
            self._product([*_tensors(args), *_tensors(tuple(kwargs.values()))], result)
            return result
        if self._weights and (func in _DROPOUT or getattr(func, "__name__", "") in _SHAPING):
            return self._shape(func, args, kwargs)
        return func(*args, **kwargs)

    def _softmax(self, scores: Tensor, result: Tensor) -> None:
        site = self._session.site()
        if site is None:
            return
        with torch._C.DisableTorchFunction(), torch.no_grad():
            heads = site.heads(len(scores)) if scores.dim() == 3 else 1
            part = self._session.part(site, four(scores.detach(), heads))
            self._weights[result] = _Weights(site, attended(part))

    def _shape(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function on weights: its result is weights as well."""
        found = next((x for x in args if isinstance(x, Tensor) and x in self._weights), None)
        if found is None:
            return func(*args, **kwargs)
        weights = self._weights[found]
        dropped = func in _DROPOUT
        if dropped and weights.before is None:
            # In-place dropout overwrites the weights from before.
            inplace = func is torch.dropout_ or kwargs.get("inplace", len(args) > 3 and args[3])
            weights = replace(weights, before=found.detach().clone() if inplace else found.detach())
        result = func(*args, **kwargs)
        if not isinstance(result, Tensor) or result.dim() not in (3, 4):
            return result
        if weights.before is not None and not dropped:
            with torch._C.DisableTorchFunction(), torch.no_grad():
                same = [weights.before if x is found else x for x in args]
                weights = replace(weights, before=func(*same, **kwargs))
        if func is Tensor.__getitem__ and weights.mask is not None and result.shape[-1] != found.shape[-1]:
            index = args[1]
            cut = isinstance(index, tuple) and len(index) == 2 and index[0] is Ellipsis
            weights = replace(weights, mask=weights.mask[index] if cut else None)
        self._weights[result] = weights
        return result

    def _product(self, operands: list[Tensor], result: Any) -> None:
        for operand in operands:
            weights = self._weights.pop(operand, None) if operand.dim() in (3, 4) else None
            if weights is not None:
                others = [x for x in operands if x is not operand]
                if _of_examples(others) and not any(x in self._products for x in others):
                    self._keep(weights, operand)
                return
        if _of_examples(operands) and isinstance(result, Tensor):
            self._products[result] = True

    def _keep(self, weights: _Weights, operand: Tensor) -> None:
        """Record the weights as they were before dropout."""
        with torch._C.DisableTorchFunction(), torch.no_grad():
            values = (operand if weights.before is None else weights.before).detach()
            values = four(values, weights.site.heads(len(values)) if values.dim() == 3 else 1)
            mask = weights.mask
            if mask is None or mask.shape[-1] != values.shape[-1]:
                mask = self._session.part(weights.site, values) > 0
            self._session.record_weights(weights.site, values, mask)


def _of_examples(operands: list[Tensor]) -> bool:
    """Whether the operands of a product may have an example dimension: none of them is a parameter."""
    return all(x.dim() > 2 and not isinstance(x, nn.Parameter) for x in operands)


def _tensors(values: tuple[Any, ...]) -> list[Tensor]:
    """The tensors among arguments, including those in lists and tuples."""
    found = []
    for value in values:
        found += [x for x in value if isinstance(x, Tensor)] if isinstance(value, list | tuple) else []
        found += [value] if isinstance(value, Tensor) else []
    return found
