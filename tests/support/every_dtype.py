"""The precisions that a GPU computes in, and the errors that each of them allows."""

import pytest
import torch

ERRORS = {torch.float32: 1e-5, torch.float16: 5e-3, torch.bfloat16: 4e-2}
"""`max |a - b| / max |b|` of values; gradients are sums of many terms: three times as much."""
every_dtype = pytest.mark.parametrize("dtype", ERRORS, ids=lambda dtype: str(dtype).removeprefix("torch."))
