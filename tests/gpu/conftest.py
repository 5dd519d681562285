"""The device of these tests, and float32 that is float32 there."""

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
import torch

# PyTorch reads it at the first matrix product of a process, and then refuses `trainer.deterministic=true`
# in every later test if it was not there.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> torch.device:
    """The GPU, or with `--device cpu` the CPU."""
    name = request.config.getoption("--device")
    if name == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device here (--device cpu tries the test on the CPU)")
    return torch.device(name)


@pytest.fixture(autouse=True)
def _full_precision(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    """No TF32 in convolutions and recurrent layers, which PyTorch allows by default."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


@pytest.fixture
def no_synchronization(device: torch.device) -> Callable[[], AbstractContextManager[None]]:
    """A context in which waiting for the GPU is an error; on a CPU there is nothing to wait for."""

    @contextmanager
    def forbid() -> Iterator[None]:
        if device.type != "cuda":
            yield
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch warns that this mode is a prototype
            torch.cuda.set_sync_debug_mode("error")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode("default")

    return forbid
