"""Additive scores compiled by inductor, and inside of a compiled model."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from additive_results import close, results

from attention_lab.attention import Additive, Attention, Memory
from attention_lab.attention.fast.additive import compiled_loops, scores
from attention_lab.attention.fast.additive.forms import FORMS, rational
from attention_lab.attention.fast.compiling import CompiledFunction


def _compiled_kernels() -> None:
    for activation in ("tanh", "gelu"):
        for leading, queries, keys, hidden in [((3,), 9, 11, 24), ((1,), 16, 16, 16), ((2, 3), 8, 20, 40)]:
            w = torch.randn(*leading[1:], hidden)
            inputs = [torch.randn(*leading, queries, hidden), torch.randn(*leading, keys, hidden), w]
            close(inputs, activation, 2e-6, compiled=True)
            close([inputs[0] * 100, inputs[1] * 100, w], activation, 2e-6, compiled=True)
    for kernel in compiled_loops._kernels(FORMS["tanh"]):
        assert not kernel.failed and kernel._seen
    with torch.compiler.set_stance("fail_on_recompile"):  # other sizes are not compiled again
        close([torch.randn(5, 13, 17), torch.randn(5, 31, 17), torch.randn(17)], "tanh", 2e-6, compiled=True)
    assert not compiled_loops._kernels(FORMS["tanh"])[0].failed


def test_without_memory_a_call_fails_but_later_ones_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a resumed run would compute by another method than an uninterrupted one."""
    compiled = CompiledFunction(lambda x: (x,), lambda: (torch.zeros(1),))

    def no_memory(_: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(compiled, "_compile", lambda _: no_memory)
    with pytest.raises(torch.OutOfMemoryError):
        compiled(torch.zeros(3))
    assert not compiled.failed


def _compiling_switched_off() -> None:
    """As `compile=true` does it between its steps: there are chunks, and later the kernels again."""
    inputs = [torch.randn(3, 9, 4), torch.randn(3, 8, 4), torch.randn(4)]
    with torch.compiler.set_stance("force_eager"):
        close(inputs, "tanh", 2e-6, compiled=True)
    form = rational("tanh", *inputs[:2])
    assert form is not None
    kernels = compiled_loops._kernels(form)
    assert not any(kernel.failed or kernel._seen for kernel in kernels)
    close(inputs, "tanh", 2e-6, compiled=True)
    assert all(kernel._seen and not kernel.failed for kernel in kernels)


def _inside_a_compiled_model() -> None:
    """One graph, whose operator runs its own compiled kernels or chunks."""
    for compiled in (False, True):
        attention = Attention(Additive(6, 6, 2, compiled=compiled))
        x = torch.randn(3, 2, 9, 6)
        weights = [attention.score.query_weight, attention.score.value_weight]  # the keys are projected here
        wanted = results(attention(x, Memory(x, x, None)), weights)
        whole = torch.compile(attention, fullgraph=True)
        found = results(whole(x, Memory(x, x, None)), weights)
        for got, want in zip(found, wanted, strict=True):
            assert torch.allclose(got, want, rtol=1e-4, atol=1e-5)
    with torch.autocast("cpu", torch.bfloat16):
        assert whole(x, Memory(x, x, None)).isfinite().all()


SCRIPTS = (_compiled_kernels, _compiling_switched_off, _inside_a_compiled_model)


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_compiled(script: Callable[[], None], tmp_path: Path) -> None:
    """In a process of its own, as Dynamo does not follow checked shapes; it may not say a word."""
    modules = os.pathsep.join(filter(None, sys.path))  # those that tests share among them
    quiet = {  # what PyTorch says of a CUDA build without a GPU, and of Python 3.13.0
        "TORCH_LOGS": "-torch.utils.cpp_extension",
        "PYTHONWARNINGS": "ignore:Guards may run slower on Python 3.13.0:RuntimeWarning",
    }
    environment = {**os.environ, **quiet, "PYTHONPATH": modules, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, __file__, script.__name__]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


if __name__ == "__main__":
    scores.SMALL = scores.CHUNK = -1
    torch.manual_seed(0)
    {script.__name__: script for script in SCRIPTS}[sys.argv[1]]()
