"""The Triton kernels compile for a GPU, also where there is none, and keep what they sum in registers."""

import os
from types import ModuleType
from typing import Any

import pytest

from attention_lab.attention.fast.additive.triton_scores import OPTIONS

pytestmark = pytest.mark.gpu

SIZES = {"row_tile": 8, "column_tile": 128, "hidden_tile": 128, "with_values": True, "nvidia": True}


@pytest.fixture(scope="module")
def kernels() -> ModuleType:
    pytest.importorskip("triton")
    if os.environ.get("TRITON_INTERPRET") == "1":
        pytest.skip("nothing is compiled where kernels are interpreted")
    from attention_lab.attention.fast.additive import triton_kernels

    return triton_kernels


def _type(argument: str) -> str:
    if argument in SIZES:
        return "constexpr"
    return "*fp32" if argument.endswith("pointer") else "fp32" if argument == "rate" else "i32"


@pytest.mark.parametrize("name", ["exponentials", "scores", "rows"])
def test_a_kernel_compiles_without_a_gpu(name: str, kernels: Any) -> None:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kernel = getattr(kernels, name)
    types = {argument: _type(argument) for argument in kernel.arg_names}
    source = ASTSource(kernel, types, {key: SIZES[key] for key in types if key in SIZES})
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=OPTIONS)
    assert ".local" not in compiled.asm["ptx"]
    assert ("rcp.approx.ftz.f32" in compiled.asm["ptx"]) == (name != "exponentials")
