"""Functions that run in two connected processes, and a port for them to meet at."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import torch

SECONDS = 60


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


def run_in_two_processes(function: Callable[[Path], None], folder: Path) -> None:
    """Run `function(folder)` in both processes, which must end within `SECONDS`."""
    arguments = (function, free_port(), folder)
    context = torch.multiprocessing.spawn(_connected, arguments, nprocs=2, join=False)  # type: ignore[no-untyped-call]
    try:
        assert any(context.join(timeout=SECONDS) for _ in range(2))  # True when both have ended
    finally:
        for process in context.processes:
            process.kill()


def _connected(rank: int, function: Callable[[Path], None], port: int, folder: Path) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "LOCAL_RANK": str(rank)}
    function(folder)
