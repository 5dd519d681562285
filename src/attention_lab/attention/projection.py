"""A learned matrix times each row of a tensor."""

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
        ValueError: W is on the meta device, but x is not; on the CPU, PyTorch's product would be arbitrary.
    """
    if weight.is_meta and not x.is_meta and not torch.compiler.is_compiling():
        raise ValueError(f"a weight {list(weight.shape)} of the attention is {NO_VALUES}")
    return x @ weight.mT
