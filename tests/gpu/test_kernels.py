"""Triton kernels against float64; and they compile for a GPU, also where there is none."""

import os
from importlib import import_module
from typing import Any

import pytest
import torch

from attention_lab.attention.fast import linear, linear_triton
from attention_lab.attention.fast.additive import chunks, triton_scores
from attention_lab.attention.fast.additive.forms import FORMS, LOGISTIC

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning"),  # in Triton's interpreter
]

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
ADDITIVE, LINEAR = "additive.triton_kernels", "linear_kernels"
SIZES = {"row_tile": 8, "column_tile": 128, "hidden_tile": 128, "with_values": True, "nvidia": True}
TILES = {"chunk": 64, "feature_tile": 64, "size_tile": 64, "precision": "tf32x3"}
MEMORY = {75: 64, 86: 99, 90: 227}
"""KiB of shared memory that a program may use, by compute capability: such as a T4, an RTX 3090, an H100."""


def _needs_kernels(device: torch.device) -> None:
    if device.type == "cpu" and not INTERPRETED:
        pytest.skip("the kernels need a GPU, or Triton with TRITON_INTERPRET=1")


@pytest.mark.parametrize("activation", LOGISTIC)
@pytest.mark.parametrize("weights", [1, 3])
@pytest.mark.parametrize("spread", [1, 4, 30])
def test_additive_scores(activation: str, weights: int, spread: int, device: torch.device) -> None:
    """Sums of exponents that all, some and hardly any product of exponentials can represent."""
    _needs_kernels(device)
    sizes = [(1, 33, 65), (17, 1, 7), (5, 4, 10), (20, 141, 20)]
    if device.type == "cuda":
        sizes.append((300, 257, 256))
    torch.manual_seed(0)
    for queries, keys, hidden in sizes:
        a, b = (torch.randn(3, length, hidden).to(device) * spread for length in (queries, keys))
        a[0, 0], b[0, 0] = 1e4, -1e4
        a[1, -1] = -1e4
        w, g = torch.randn(weights, hidden).to(device), torch.randn(3, queries, keys).to(device)
        exact = chunks.Chunks(FORMS[activation], a.cpu().double(), b.cpu().double())
        wanted = [exact.scores(w.cpu().double())]
        exact.state = None
        wanted += exact.gradient_sums(g.cpu().double(), weights)
        rate = LOGISTIC[activation]
        found = [triton_scores.scores(a, b, w, rate), *triton_scores.gradient_sums(a, b, g, weights, rate)]
        for got, want in zip(found, wanted, strict=True):
            assert (got.cpu() - want).abs().max() <= 1e-5 * want.abs().max()
        again = [triton_scores.scores(a, b, w, rate), *triton_scores.gradient_sums(a, b, g, weights, rate)]
        assert all(map(torch.equal, found, again))


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float16, 3e-3), (torch.bfloat16, 3e-2)]
)
@pytest.mark.parametrize("sizes", [(3, 130, 20, 33), (2, 64, 16, 16), (2, 200, 64, 64)])
def test_causal_linear_attention(
    sizes: tuple[int, int, int, int], dtype: torch.dtype, tolerance: float, device: torch.device
) -> None:
    """The first keys have no weight, so the first contexts are zero."""
    _needs_kernels(device)
    if INTERPRETED and dtype == torch.bfloat16:
        pytest.skip("Triton's interpreter cannot multiply matrices in bfloat16")
    torch.manual_seed(0)
    sequences, length, features, size = sizes
    query, key = (torch.nn.functional.elu(torch.randn(sequences, length, features)) + 1 for _ in range(2))
    key[0, :5] = 0.0
    value, upstream = torch.randn(sequences, length, size), torch.randn(sequences, length, size)
    inputs = [x.to(device, dtype) for x in (query, key, value, upstream)]
    *leaves, gradient = (x.cpu().double() for x in inputs)
    leaves = [x.requires_grad_() for x in leaves]
    exact = linear.linear_attention(*leaves, causal=True)
    wanted = [exact.detach(), *torch.autograd.grad(exact, leaves, gradient)]
    context, total = linear_triton.contexts(*inputs[:3])
    found = [context, *linear_triton.gradients(*inputs[:3], context, total, inputs[3])]
    assert not context[0, :5].any()
    for got, want in zip(found, wanted, strict=True):
        assert got.dtype == dtype
        assert (got.cpu().double() - want).abs().max() <= tolerance * want.abs().max()


def test_causal_linear_attention_takes_the_kernels(device: torch.device) -> None:
    """On a GPU with enough sequences, and its second derivative is that of plain operations."""
    leading = (4, linear_triton.LEAST // 4)
    query, key, value = (torch.rand(*leading, 80, 8, device=device, requires_grad=True) for _ in range(3))
    assert linear_triton.usable(query, value) == (device.type == "cuda")
    context = linear.linear_attention(query, key, value, causal=True)
    plain = linear._by_sums(query, key, value, causal=True)
    assert torch.allclose(context, plain, rtol=1e-4, atol=1e-5)
    slopes = []
    for one in (context, plain):
        (slope,) = torch.autograd.grad(one.square().sum(), query, create_graph=True)
        slopes.append(torch.autograd.grad(slope.square().sum(), key)[0])
    assert torch.allclose(*slopes, rtol=1e-3, atol=1e-5)


def _type(argument: str) -> str:
    if argument in SIZES or argument in TILES:
        return "constexpr"
    return "*fp32" if argument.endswith("pointer") else "fp32" if argument == "rate" else "i32"


@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled where kernels are interpreted")
@pytest.mark.parametrize(
    ("module", "name", "capability"),
    [
        *((ADDITIVE, name, 90) for name in ("exponentials", "scores", "gradient_sums")),
        *(
            (LINEAR, name, of)
            for name in ("context", "query_gradient", "key_value_gradients")
            for of in MEMORY
        ),
    ],
)
def test_a_kernel_compiles_without_a_gpu(module: str, name: str, capability: int) -> None:
    """Its widest tile that `usable` allows needs no more shared memory than the GPU has."""
    triton = pytest.importorskip("triton")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kernel: Any = getattr(import_module(f"attention_lab.attention.fast.{module}"), name)
    types = {argument: _type(argument) for argument in kernel.arg_names}
    tiles = SIZES | TILES
    if MEMORY[capability] <= linear_triton.LITTLE >> 10:
        tiles |= {"feature_tile": 32, "size_tile": 32}
    chosen = {key: value for key, value in tiles.items() if key in types}
    options = triton_scores.OPTIONS if module == ADDITIVE else linear_triton.options(torch.float32)
    source = ASTSource(kernel, types, chosen)
    compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    assert compiled.metadata.shared <= MEMORY[capability] * 1024
    assert (name in ("scores", "gradient_sums")) == ("rcp.approx.ftz.f32" in compiled.asm["ptx"])
