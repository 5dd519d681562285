"""Multiply each row of a tensor by a learned matrix, and check sizes before a product."""

import torch
from jaxtyping import Float
from torch import Tensor

from attention_lab.argument_checks import kind_of
from attention_lab.attention.torch_state import autocast_dtype

NO_VALUES = (
    "on the meta device and has no values: give its module some with load_state_dict(weights, assign=True), "
    "or with to_empty(device=...) and an initialisation"
)


def project(x: Float[Tensor, "... L d"], weight: Float[Tensor, "... h d"]) -> Float[Tensor, "... L h"]:
    """`W x` for each row x.

    Raises:
        ValueError: the rows have the wrong size or another type than W; or W is on the meta device, but x is
            not, where PyTorch's product on the CPU would be arbitrary.
    """
    if not torch.compiler.is_compiling():
        if x.dim() < 2 or x.shape[-1] != weight.shape[-1]:
            size = weight.shape[-1]
            raise ValueError(
                f"a weight was made for rows of size {size}, [..., L, {size}], got {list(x.shape)}"
            )
        if weight.is_meta and not x.is_meta:
            raise ValueError(f"a weight {list(weight.shape)} of the attention is {NO_VALUES}")
        if x.dtype != weight.dtype and autocast_dtype(x) is None:
            remedy = f"or the attention, as by .to({x.dtype})" if x.is_floating_point() else "as by .float()"
            raise ValueError(
                f"the weights of the attention are {weight.dtype}, but a tensor {list(x.shape)} given to it "
                f"is {x.dtype}: convert the tensor, {remedy}"
            )
    return x @ weight.mT


def check_same_type(query: Tensor, keys: Tensor) -> None:
    """Raise ValueError if queries and keys, or their features, differ in type, and autocast is off."""
    if torch.compiler.is_compiling() or query.dtype == keys.dtype or autocast_dtype(query) is not None:
        return
    raise ValueError(f"the queries are {query.dtype}, the keys {keys.dtype}: convert one of them")


def check_floating(x: Tensor) -> None:
    """Raise ValueError if queries or keys are whole numbers, to which scores would be rounded."""
    if not torch.compiler.is_compiling() and not x.is_floating_point():
        raise ValueError(f"queries and keys must be floating-point, got {x.dtype}: give x.float()")


def check_tensors(call: str, *, nested: bool = False, **given: object) -> None:
    """Raise TypeError if an argument is not a tensor, or is a nested one where none is taken."""
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
    """Raise ValueError if tensors are on different devices: kernels would read anything."""
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
