"""Multiply each row of a tensor by a learned matrix, and check sizes before a product."""

import torch
from jaxtyping import Float
from torch import Tensor

NO_VALUES = (
    "on the meta device and has no values: give its module some with load_state_dict(weights, assign=True), "
    "or with to_empty(device=...) and an initialisation"
)


def project(x: Float[Tensor, "... L d"], weight: Float[Tensor, "... h d"]) -> Float[Tensor, "... L h"]:
    """`W x` for each row x.

    Raises:
        ValueError: the rows have the wrong size; or W is on the meta device, but x is not, where PyTorch's
            product on the CPU would be arbitrary.
    """
    if not torch.compiler.is_compiling():
        if x.dim() < 2 or x.shape[-1] != weight.shape[-1]:
            size = weight.shape[-1]
            raise ValueError(
                f"a weight was made for rows of size {size}, [..., L, {size}], got {list(x.shape)}"
            )
        if weight.is_meta and not x.is_meta:
            raise ValueError(f"a weight {list(weight.shape)} of the attention is {NO_VALUES}")
    return x @ weight.mT


def check_same_size(query: Tensor, keys: Tensor) -> None:
    """Raise ValueError if queries `[..., Q, d]` and keys `[..., K, d]` differ in size."""
    if not torch.compiler.is_compiling() and query.shape[-1] != keys.shape[-1]:
        raise ValueError(f"queries {list(query.shape)} and keys {list(keys.shape)} must have the same size")
