"""Multiply each row of a tensor by a learned matrix."""

import torch
from jaxtyping import Float
from torch import Tensor

from attention_lab.attention.torch_state import product_dtype

NO_VALUES = (
    "on the meta device and has no values: give its module some with load_state_dict(weights, assign=True), "
    "or with to_empty(device=...) and an initialisation"
)


def project(x: Float[Tensor, "... L d"], weight: Float[Tensor, "... h d"]) -> Float[Tensor, "... L h"]:
    """`W x` for each row x.

    Raises:
        ValueError: the rows do not have the size or the dtype of W; or W is on the meta device and x is not,
            in which case PyTorch's product on the CPU would be arbitrary.
    """
    if not torch.compiler.is_compiling():
        if x.dim() < 2 or x.shape[-1] != weight.shape[-1]:
            size = weight.shape[-1]
            raise ValueError(
                f"a weight was made for rows of size {size}, [..., L, {size}], got {list(x.shape)}"
            )
        if weight.is_meta and not x.is_meta:
            raise ValueError(f"a weight {list(weight.shape)} of the attention is {NO_VALUES}")
        if x.dtype != weight.dtype and product_dtype(x) != product_dtype(weight):
            how = f"or the attention, for example with .to({x.dtype})"
            remedy = how if x.is_floating_point() else "for example with .float()"
            raise ValueError(
                f"the weights of the attention are {weight.dtype}, but a tensor {list(x.shape)} given to it "
                f"is {x.dtype}: convert the tensor, {remedy}"
            )
    return x @ weight.mT
