"""Products of weights and values, and which dimensions of the weights are queries and keys."""

from dataclasses import dataclass
from string import ascii_lowercase, ascii_uppercase

import torch
from torch import Tensor

from attention_lab.attention.recording.by_hand.calls import TorchCall, listed

_MATMUL = {torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, Tensor.bmm, torch.mm, Tensor.mm}
_MATMUL |= {torch.linalg.matmul, torch.mv, Tensor.mv}
_REVERSED = {Tensor.__rmatmul__}
_ADDED = {torch.baddbmm, Tensor.baddbmm}
PRODUCTS = {*_MATMUL, *_REVERSED, *_ADDED, torch.einsum, torch.tensordot}


@dataclass(frozen=True)
class Contraction:
    """What a product of two tensors does with the dimensions of one of them.

    Attributes:
        order: the dimensions of the tensor: examples and heads first, then the query, and the key last. If
            there is a single query without a dimension, a new last dimension stands for it. Empty if the
            product does not sum over the key.
        kept: the key's dimension in the result, counted from the end; None if the product sums over it.
        query: the query's dimension in the result, counted from the end; None if it has none.
    """

    order: tuple[int, ...] = ()
    kept: int | None = None
    query: int | None = None


def factors(call: TorchCall) -> list[Tensor]:
    """The factors of a product, from left to right."""
    given = [*call.args, *(x for name, x in call.kwargs.items() if name != "out")]
    tensors = [x for one in given for x in listed(one) if isinstance(x, Tensor)]
    if call.func in _ADDED:
        return tensors[1:3]
    return tensors[1::-1] if call.func in _REVERSED else tensors


def contraction(call: TorchCall, both: list[Tensor], place: int, key: int) -> Contraction:
    """What a product of two factors does with the dimensions of one of them.

    Args:
        call: a call of one of `PRODUCTS`.
        both: its factors.
        place: which of them, 0 or 1.
        key: the dimension of that factor that runs over the keys, counted from the end.
    """
    if call.func is torch.einsum:
        equation = call.first
        return _einsum(equation, both, place, key) if isinstance(equation, str) else Contraction()
    if call.func is torch.tensordot:
        return _einsum(_of_tensordot(call, both), both, place, key)
    dims = both[place].dim()
    lead = range(dims - 2)
    if dims == 1:
        return Contraction((1, 0))
    if key == (-1 if place == 0 else -2):
        order = (*lead, dims - 2, dims - 1) if place == 0 else (*lead, dims - 1, dims - 2)
        return Contraction(order, query=-2 if place == 0 else -1)
    return Contraction(kept=key if place == 0 else None)


def summed(call: TorchCall, both: list[Tensor], place: int) -> list[int]:
    """The dimensions of a factor over which a product sums, counted from the end."""
    return [dim for dim in range(-both[place].dim(), 0) if contraction(call, both, place, dim).order]


def _einsum(equation: str, both: list[Tensor], place: int, key: int) -> Contraction:
    """The same for an einsum, from its letters."""
    left, arrow, output = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != 2 or not arrow:
        return Contraction()
    terms = [_written_out(term, x.dim()) for term, x in zip(terms, both, strict=True)]
    output = _written_out(output, max(len(term) for term in terms)) if "..." in output else output
    own, other = terms[place], terms[1 - place]
    letter = own[key]
    if letter in output:
        return Contraction(kept=output.index(letter) - len(output))
    if letter not in other:
        return Contraction()
    queries = [one for one in own if one in output and one not in other]
    lead = [one for one in own if one not in (*queries[-1:], letter)]
    lead.sort(key=lambda one: output.index(one) if one in output else len(output))
    of_output = [one for one in other if one in output]
    if not queries and not set(lead) < set(of_output):  # values with features, of these examples and heads
        return Contraction()
    if not queries:
        return Contraction((*map(own.index, lead), len(own), own.index(letter)))
    order = (*map(own.index, lead), own.index(queries[-1]), own.index(letter))
    return Contraction(order, query=output.index(queries[-1]) - len(output))


def _of_tensordot(call: TorchCall, both: list[Tensor]) -> str:
    """The equation of the einsum that a tensordot computes."""
    dims = call.kwargs.get("dims", call.args[2] if len(call.args) > 2 else 2)
    summed = (range(-dims, 0), range(dims)) if isinstance(dims, int) else map(listed, dims)
    left, right = list(ascii_lowercase[: both[0].dim()]), list(ascii_uppercase[: both[1].dim()])
    for one, other in zip(*summed, strict=True):
        right[other] = left[one]
    output = [one for one in left + right if (one in left) != (one in right)]
    return f"{''.join(left)},{''.join(right)}->{''.join(output)}"


def _written_out(term: str, dims: int) -> str:
    """A term of an einsum with its dots replaced by a digit for each dimension, counted from the right."""
    before, dots, after = term.partition("...")
    count = dims - len(before) - len(after)
    return before + "".join(str(number) for number in reversed(range(count))) + after if dots else term
