"""Calls of functions on weights or scores, and how they change the dimensions."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

OPERATORS = torch._ops.OpOverload, torch._ops.OpOverloadPacket
SOFTMAX = {torch.softmax, F.softmax, Tensor.softmax, torch.special.softmax}
LOG_SOFTMAX = {torch.log_softmax, F.log_softmax, Tensor.log_softmax, torch.special.log_softmax}
_MAY_CHOOSE_DIM = {F.softmax, F.log_softmax}
EXP = {torch.exp, Tensor.exp, Tensor.exp_}
LOGSUMEXP = {torch.logsumexp, Tensor.logsumexp}
SUM = {torch.sum, Tensor.sum}
SUBTRACTION = {torch.sub, Tensor.sub, Tensor.__sub__}
DIVISION = {torch.div, Tensor.div, Tensor.div_, Tensor.__truediv__, Tensor.__itruediv__, torch.true_divide}
DIVISION |= {torch.divide, Tensor.divide}
MULTIPLICATION = {torch.mul, Tensor.mul, Tensor.__mul__, torch.multiply, Tensor.multiply}
DROPOUT = {F.dropout, torch.dropout, torch.dropout_}
COSINE = {torch.cosine_similarity}
COMPARISONS = {torch.cdist} | COSINE
LINEAR = {F.linear}
CONVOLUTIONS = {torch.conv1d, torch.conv2d, torch.conv3d}
NORMALIZE = {F.normalize}
MIXING = LINEAR | {torch.conv2d, F.layer_norm, F.batch_norm}  # heads: 2003.02436, 2103.11886
_OF_WEIGHTS = DROPOUT | MIXING | NORMALIZE
LAYERS = MIXING | CONVOLUTIONS | {torch.addmm, F.group_norm, F.rms_norm}
_ORDERING = {"permute", "transpose", "swapaxes", "swapdims", "movedim", "moveaxis", "t", "unsqueeze"}
_ORDERING |= {"squeeze", "__get__"}  # the last is `.mT`
_VIEWS = {"view", "reshape", "view_as", "reshape_as", "flatten", "unflatten", "expand"}
_VIEWS |= {"expand_as", "repeat", "narrow", "select", "__getitem__"} | _ORDERING
_CASTS = {"to", "type", "type_as", "float", "half", "bfloat16", "double", "contiguous", "clone", "detach"}
_MULTIPLYING = {"mul", "mul_", "__mul__", "__rmul__", "__imul__", "multiply"}
_SCALING = _MULTIPLYING | {"div", "div_", "__truediv__", "__itruediv__", "true_divide", "divide"}
_CHANGING = {"masked_fill", "masked_fill_", "nan_to_num", "where", "clamp", "clamp_", "clip", "tanh"}
_CHANGING |= {"add", "add_", "__add__", "__radd__", "__iadd__", "sub", "sub_", "__sub__", "__isub__"}
_CHANGING |= {"tril", "triu", "nan_to_num_"}
_MASKING = _MULTIPLYING | {"masked_fill", "masked_fill_", "where", "tril", "triu"}
_FOLLOWED = _VIEWS | _CASTS | _SCALING | _CHANGING


def listed(x: Any) -> Any:
    """A list or tuple as it is; anything else as a tuple of one item."""
    return x if isinstance(x, list | tuple) else (x,)


class TorchCall(NamedTuple):
    """A call of a torch function or, in an exported program, of the operator that computes the same."""

    func: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    operator: Callable[..., Any] | None = None

    @property
    def name(self) -> str:
        """The name of the function."""
        return getattr(self.func, "__name__", "")

    @property
    def is_of_weights(self) -> bool:
        """Whether it returns weights if its argument holds weights."""
        return self.func in _OF_WEIGHTS or self.name in _FOLLOWED

    @property
    def is_view(self) -> bool:
        """Whether it only rearranges or selects."""
        return self.name in _VIEWS

    @property
    def keeps_weights(self) -> bool:
        """Whether it changes no weight, apart from dropout and precision."""
        return self.func in DROPOUT or self.name in _CASTS

    @property
    def may_mask(self) -> bool:
        """Whether it may set some weights to zero."""
        return self.name in _MASKING

    @property
    def keeps_product(self) -> bool:
        """Whether it changes a product of two tensors at most by scaling it."""
        return self.name in _VIEWS | _CASTS | _SCALING

    @property
    def in_place(self) -> bool:
        """Whether it overwrites its first argument."""
        return (
            self.name in {"__imul__", "__itruediv__", "__iadd__", "__isub__"}
            or (self.name.endswith("_") and not self.name.endswith("__"))
            or bool(self.kwargs.get("inplace", self.func in DROPOUT and len(self.args) > 3 and self.args[3]))
        )

    @property
    def first(self) -> Any:
        """The first argument."""
        return self.args[0] if self.args else self.kwargs.get("input")

    def dim(self, of: Tensor, place: int = 1, default: int | None = None) -> int | None:
        """The one dimension over which it sums or normalises, counted from the end.

        Args:
            of: its first argument.
            place: the index of the dimension among the positional arguments.
            default: the dimension if none is given.
        """
        given = self.args[place] if len(self.args) > place else default
        dim = self.kwargs.get("dim", self.kwargs.get("axis", given))
        if isinstance(dim, tuple | list) and len(dim) == 1:
            dim = dim[0]
        if not isinstance(dim, int) or isinstance(dim, bool):
            return None
        return dim if dim < 0 else dim - of.dim()

    @property
    def softmax_dim(self) -> int | None:
        """The dimension over which a softmax normalises, counted from the end; torch may choose it."""
        dim, count = self.dim(self.first), int(self.first.dim())
        if dim is None and self.func in _MAY_CHOOSE_DIM:
            return (0 if count in (1, 3) else 1) - count
        return dim

    @property
    def mixed(self) -> int:
        """The dimension that a function of `MIXING` mixes, counted from the end."""
        if self.func is F.batch_norm:
            return 1 - int(self.first.dim())
        return -3 if self.func is torch.conv2d else -1

    @property
    def divided_by_sum(self) -> int | None:
        """The dimension over whose sum `F.normalize` divides; None if it divides by another norm."""
        norm = self.kwargs.get("p", self.args[1] if len(self.args) > 1 else 2.0)
        return self.dim(self.first, place=2, default=1) if norm == 1 else None

    def __call__(self) -> Any:
        """The result."""
        return (self.operator or self.func)(*self.args, **self.kwargs)

    def tensors(self) -> list[Tensor]:
        """The tensors among its arguments that decide whether its result holds scores or weights."""
        given = [self.first] if self.name in _VIEWS | _CASTS else [*self.args, *self.kwargs.values()]
        return [x for one in given for x in listed(one) if isinstance(x, Tensor)]

    def of(self, found: Tensor, other: Tensor) -> Any:
        """The result with another tensor of the same shape in place of `found`."""
        func = self.operator or self.func
        if self.name == "view":  # strides may differ
            func = torch.Tensor.reshape
        args = [other if x is found else x for x in self.args]
        return func(*args, **{name: other if x is found else x for name, x in self.kwargs.items()})

    @property
    def _names_no_size(self) -> bool:
        """Whether the arguments of a view name no size, so that it applies to a tensor of any size."""
        if self.name == "__getitem__":
            return all(
                one is None or one is ... or isinstance(one, int | slice) for one in listed(self.args[1])
            )
        return self.name in _ORDERING

    def moved(self, key: int, found: Tensor) -> int | None:
        """The dimension of a view, counted from the end, that was dimension `key` of `found`.

        The function is applied to a tensor that is expanded, with stride 0, in all other dimensions, so that
        strides show the answer. They do not for a single key, which is replaced by two if possible.
        """
        size = found.shape[key]
        shape = list(found.shape)
        if size == 1 and self._names_no_size:
            shape[key] = 2
        probe = found.new_empty(shape[key]).view(shape[key], *(1,) * (-key - 1)).expand(shape)
        result = self.of(found, probe)
        if not isinstance(result, Tensor):
            return None
        if size == 1 and result.dim() != self.of(found, found.detach()).dim():  # it removes the dimension
            return None
        dims = [dim for dim in range(-result.dim(), 0) if result.shape[dim] > 1 and result.stride(dim)]
        if len(dims) == 1:
            return dims[0]
        return key if -key <= result.dim() and result.shape[key] == size else None


def called(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> TorchCall:
    """The call of a function, or of an operator as a call of its function."""
    function = _function_of(func) if isinstance(func, OPERATORS) else None
    return TorchCall(function or func, args, kwargs, func if function else None)


def _function_of(operator: Any) -> Callable[..., Any] | None:
    """The function that calls an operator of torch, such as `torch.softmax` for `aten.softmax.int`."""
    packet = operator.overloadpacket if isinstance(operator, torch._ops.OpOverload) else operator
    space, _, name = packet._qualified_op_name.partition("::")
    for home in (torch, F, Tensor) if space == "aten" else ():
        found = getattr(home, name.lstrip("_"), None)
        if found is not None:
            return found if callable(found) else found.__get__  # type: ignore[no-any-return]
    return None
