"""Check tensors, whether their devices, dtypes and sizes match, and numbers that must be whole."""

from collections.abc import Sequence

import torch
from torch import Tensor

from attention_lab.argument_checks import check_number, kind_of
from attention_lab.attention.torch_state import product_dtype


def check_tensors(call: str, *, nested: bool = False, **given: object) -> None:
    """Raise TypeError if an argument is not a tensor, or is a nested tensor where those are not supported."""
    for name, argument in given.items():
        if not isinstance(argument, Tensor):
            raise TypeError(f"{call} takes a tensor as {name}, not {kind_of(argument)}")
        if argument.is_nested and not nested:
            raise TypeError(
                f"{call} takes no nested tensor as {name}: pad the sequences and mask the padding, or give "
                "MultiHead their rows with packing=Packing.of_lengths(...)"
            )


def check_devices(
    keys: Tensor, values: Tensor, queries: Tensor | None = None, mask: Tensor | None = None
) -> None:
    """Raise ValueError if tensors are on different devices: a kernel would read arbitrary memory."""
    device = keys.device
    if values.device == device and all(x is None or x.device == device for x in (queries, mask)):
        return
    named = {"keys": keys, "values": values, "queries": queries, "mask": mask}
    places = {name: x.device for name, x in named.items() if x is not None}
    for name, place in places.items():
        if place.type == "meta":
            verbs = ("is", "has") if name == "mask" else ("are", "have")
            raise ValueError(f"the {name} {verbs[0]} on the meta device and {verbs[1]} no values")
    given = ", ".join(f"{name} on {place}" for name, place in places.items())
    raise ValueError(f"all tensors must be on the same device, got {given}")


def check_same_size(query: Tensor, keys: Tensor) -> None:
    """Raise ValueError if queries `[..., Q, d]` and keys `[..., K, d]` differ in size."""
    if not torch.compiler.is_compiling() and query.shape[-1] != keys.shape[-1]:
        raise ValueError(f"queries {list(query.shape)} and keys {list(keys.shape)} must have the same size")


def check_same_type(of_query: Tensor, of_key: Tensor, query: Tensor, keys: Tensor) -> None:
    """Raise ValueError if features of queries and keys differ in dtype, and autocast does not convert them.

    Args:
        of_query: the features of the queries.
        of_key: the features of the keys.
        query: the queries.
        keys: the keys.
    """
    if torch.compiler.is_compiling() or of_query.dtype == of_key.dtype:
        return
    if product_dtype(of_query) == product_dtype(of_key):
        return
    if query.dtype != keys.dtype:
        raise ValueError(f"the queries are {query.dtype}, the keys {keys.dtype}: convert one of them")
    parameters = of_key.dtype if of_query.dtype == query.dtype else of_query.dtype
    raise ValueError(
        f"the weights of the attention are {parameters}, but the queries and keys are {query.dtype}: convert "
        f"them, or the attention, for example with .to({query.dtype})"
    )


def check_floating(x: Tensor) -> None:
    """Raise ValueError if queries or keys are integers: scores would be rounded to integers."""
    if not torch.compiler.is_compiling() and not x.is_floating_point():
        raise ValueError(f"queries and keys must be floating-point, got {x.dtype}: give x.float()")


def broadcast(first: Sequence[int], second: Sequence[int]) -> bool:
    """Whether two shapes broadcast with each other."""
    return first == second or all(
        one == other or 1 in (one, other)
        for one, other in zip(reversed(first), reversed(second), strict=False)
    )


def check_count(name: str, number: object, least: int | None = None) -> None:
    """Raise LabError if a size or a position is not a whole number, or is below `least`.

    Not checked: anything in compiled code, symbolic numbers, and tensors that hold a single integer.
    """
    if type(number) is int and (least is None or number >= least):  # the usual case, without a call
        return
    if torch.compiler.is_compiling() or isinstance(number, torch.SymInt):
        return
    if isinstance(number, Tensor) and number.dim() == 0 and not number.is_floating_point():
        return
    check_number(name, number, least=least, whole=True)


def check_indices(name: str, given: object, wanted: str) -> None:
    """Raise TypeError if an argument is not an integer tensor."""
    if not isinstance(given, Tensor) or given.dtype not in (torch.int64, torch.int32):
        kind = given.dtype if isinstance(given, Tensor) else type(given).__name__
        raise TypeError(f"{name} must be an integer tensor of {wanted}, not {kind}")
