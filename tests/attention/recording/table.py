"""The weights recorded of other libraries' models against their own eager weights: docs/recording.md.

python tests/attention/recording/table.py     writes the page again
"""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
import transformers.integrations.flex_attention
from torch import Tensor, nn

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))

from architectures import ARCHITECTURES, LENGTH, PADDINGS, Architecture, default, in_float64, real

from attention_lab.attention import Recording, recording

PAGE = Path(__file__).parents[3] / "docs" / "recording.md"
BOUNDS = {torch.float64: 1e-10, torch.float32: 1e-5}


def difference(name: str, implementation: str, padding: str, dtype: torch.dtype) -> float:
    """The largest difference between recorded weights and what the model itself uses.

    For real queries these are the model's own eager weights. For all queries, rows without a key among them,
    the weights times the values are compared with what the fused kernel gives.
    """
    model, reference, inputs = _prepared(ARCHITECTURES[name], implementation, padding, dtype)
    with torch.no_grad(), _exactly(dtype):
        eager = ARCHITECTURES[name].eager(reference, inputs)
        with kernels() as calls, _slow(implementation), recording(model) as weights:
            model(**inputs)
    found = list(weights.values())
    assert len(found) == len(eager), list(weights)
    differences = [_of_real(*pair, padding) for pair in zip(found, eager, strict=True)]
    if implementation == "eager" and not name.startswith("x-"):
        differences += [_largest(one - other) for one, other in zip(found, map(_zeros, eager), strict=True)]
    if implementation in ("sdpa", "flex"):
        assert len(calls) == len(found)
        differences += [_of_call(one, *call) for one, call in zip(found, calls, strict=True)]
    return max(differences)


def same_bits(name: str, implementation: str, padding: str, *, train: bool) -> bool:
    """Whether outputs, gradients and the next random numbers are the same with and without a recording."""
    model, _, inputs = _prepared(ARCHITECTURES[name], implementation, padding, torch.float32, 0.1)
    model.train(train)

    def run() -> list[Tensor]:
        torch.manual_seed(1)
        gradients = train and implementation != "flex"  # torch has none for it on the CPU
        with torch.set_grad_enabled(gradients), _slow(implementation):
            output = _tensor(model(**inputs))
            if not gradients:
                return [output, torch.rand(2)]
            parameters = [one for one in model.parameters() if one.requires_grad]
            found = torch.autograd.grad(output.nan_to_num().square().sum(), parameters, allow_unused=True)
        return [output, torch.rand(2), *(one for one in found if one is not None)]

    plain = run()
    with recording(model, 0):
        recorded = run()
    return all(_equal(one, other) for one, other in zip(plain, recorded, strict=True))


def _prepared(
    architecture: Architecture, implementation: str, padding: str, dtype: torch.dtype, dropout: float = 0.0
) -> tuple[nn.Module, nn.Module, dict[str, Any]]:
    """A model, the same computing eagerly, and inputs."""
    with default(dtype):
        model = architecture.build(implementation, dropout).eval()
        reference = architecture.build("eager", dropout).eval()
        reference.load_state_dict(model.state_dict())
        return model, reference, architecture.inputs(padding)


@contextmanager
def kernels() -> Iterator[list[tuple[Tensor, Tensor]]]:
    """Collect values and outputs of the fused kernels that are called."""
    found: list[tuple[Tensor, Tensor]] = []
    fused = F.scaled_dot_product_attention

    def watched(q: Tensor, k: Tensor, v: Tensor, *args: Any, **options: Any) -> Tensor:
        output = fused(q, k, v, *args, **options)
        found.append((v.repeat_interleave(q.shape[1] // v.shape[1], 1), output))
        return output

    flex = transformers.integrations.flex_attention
    flexible = flex.compile_friendly_flex_attention

    def watched_flex(q: Tensor, k: Tensor, v: Tensor, *args: Any, **options: Any) -> Tensor:
        output: Tensor = flexible(q, k, v, *args, **options)
        found.append((v.repeat_interleave(q.shape[1] // v.shape[1], 1), output))
        return output

    with (
        patch.object(F, "scaled_dot_product_attention", watched),
        patch.object(flex, "compile_friendly_flex_attention", watched_flex),
    ):
        yield found


def _exactly(dtype: torch.dtype) -> Any:
    return in_float64() if dtype == torch.float64 else nullcontext()


@contextmanager
def _slow(implementation: str) -> Iterator[None]:
    """The given path: flex attention uncompiled, torch's layers with their fast path or without."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(implementation == "fast path")
    try:
        with torch.compiler.set_stance("force_eager"), warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of torch's compiler, within torch
            for start in ("flex_attention called without", ".*nested tensors"):
                warnings.filterwarnings("ignore", start)
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def _of_real(found: Tensor, eager: Tensor, padding: str) -> float:
    """The largest difference of real queries."""
    assert found.shape == eager.shape
    queries = real(padding) if found.shape[2] == LENGTH else torch.ones(found.shape[0], found.shape[2]).bool()
    if padding == "empty rows":
        queries[2] = False  # all padding
    return _largest((found - eager).transpose(1, 2)[queries])


def _of_call(weights: Tensor, value: Tensor, output: Tensor) -> float:
    """The largest difference of the weights times the values from the output of the kernel."""
    return _largest(weights @ value - output)


def _largest(x: Tensor) -> float:
    return x.abs().max().item()


def _zeros(weights: Tensor) -> Tensor:
    return weights.masked_fill(weights.isnan().all(-1, keepdim=True), 0.0)


def _equal(one: Tensor, other: Tensor) -> bool:
    return torch.equal(one.isnan(), other.isnan()) and torch.equal(one.nan_to_num(), other.nan_to_num())


def _tensor(output: Any) -> Tensor:
    """The output of a model: a tensor, or the first of its outputs."""
    found = output if isinstance(output, Tensor) else output[0]
    assert isinstance(found, Tensor)
    return found


def recorded(name: str, implementation: str, padding: str = "none", **options: Any) -> Recording:
    """A recording of one call."""
    model, _, inputs = _prepared(ARCHITECTURES[name], implementation, padding, torch.float32)
    with torch.no_grad(), _slow(implementation), recording(model, **options) as weights:
        model(**inputs)
    return weights


HEADER = """# Attention of any model, recorded

`recording(model)` computes the weights separately from a model's own kernels. This table, written by
`python tests/attention/recording/table.py`, compares them with the weights that each model itself returns
from eager attention. For fused kernels, it also compares the weights times the values with the kernel's
output. The models are small, with random parameters. Each cell gives the largest difference in float64, then
in float32. Eager attention in transformers casts scores to float32 even in a float64 model; for this table,
the cast is left out.

- **none**: no padding; **padding**: some examples are shorter than others; **empty rows**: padding is on the
  left, so that in causal models some queries see no key, and one example consists of padding alone.
- **same bits**: outputs, gradients and the next random numbers are the same with and without recording, in
  training (dropout on) and in evaluation. Flex attention has no gradients on the CPU, and runs uncompiled
  here.
- A dash means that the architecture has no such input. A path is not listed if the library does not offer
  it, or if it does not run on the CPU (sinks in flex attention; T5's flex attention in transformers).

"""


def rows() -> Iterator[tuple[str, str]]:
    """Every architecture with each of its implementations."""
    for name, architecture in ARCHITECTURES.items():
        for implementation in architecture.implementations:
            yield name, implementation


def cell(name: str, implementation: str, padding: str) -> str:
    """The largest differences in float64 and in float32."""
    if padding not in ARCHITECTURES[name].paddings:
        return "—"
    return ", ".join(f"{difference(name, implementation, padding, dtype):.0e}" for dtype in BOUNDS)


def page() -> str:
    """The text of the page."""
    lines = [
        "| model | attention | path | " + " | ".join(PADDINGS) + " | same bits |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, implementation in rows():
        paddings = ARCHITECTURES[name].paddings
        same = all(
            same_bits(name, implementation, one, train=train) for one in paddings for train in (True, False)
        )
        cells = [cell(name, implementation, padding) for padding in PADDINGS]
        start = [name, ARCHITECTURES[name].kind, implementation]
        lines.append("| " + " | ".join([*start, *cells, "yes" if same else "**no**"]) + " |")
    return HEADER + "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
