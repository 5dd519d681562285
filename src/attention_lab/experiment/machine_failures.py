"""Report failures of the machine in one line: no memory, a full disk, no deterministic implementation."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from traceback import walk_tb
from typing import Any

from attention_lab.console_text import one_line
from attention_lab.errors import BAD_VALUE_ERRORS, LabError, is_out_of_memory
from attention_lab.files.writing import failed_write

_REFUSED = " does not have a deterministic implementation"  # PyTorch's, after the operation


@contextmanager
def blame_checkpoint(
    path: Path | None, started: Callable[[], bool], problem: str = "training cannot continue from it"
) -> Iterator[None]:
    """Blame the checkpoint in use for errors that occur before training, or the test, has started."""
    try:
        yield
    except BAD_VALUE_ERRORS as error:
        if path is None or (started() and not _is_of_optimizer(error)) or is_out_of_memory(error):
            raise
        reason = one_line(error)[:200]
        raise LabError(f"ckpt_path={path}: {problem}: {type(error).__name__}: {reason}") from None


def _is_of_optimizer(error: BaseException) -> bool:
    """Whether PyTorch's optimiser raised an error: a bad state shows up only in its first step."""
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    return bool(frames) and str(frames[-1].f_globals.get("__name__")).startswith("torch.optim.")


@contextmanager
def explain_machine_failures(config: Mapping[str, Any], folder: Path) -> Iterator[None]:
    """Turn failures of the machine into a LabError that says what to do."""
    hook = threading.excepthook
    threading.excepthook = lambda args: None if isinstance(args.exc_value, OSError) else hook(args)
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        operation, refused, _ = str(error).partition(_REFUSED)
        if refused:
            raise LabError(
                f"trainer.deterministic=true: {one_line(operation)} has no deterministic implementation "
                "here: choose +trainer.deterministic=warn, which runs it with a warning"
            ) from None
        if not is_out_of_memory(error):
            raise
        raise LabError(_memory(config, str(error))) from None
    except OSError as error:  # may also come from the thread that writes a log file
        failed = failed_write(error, folder)
        if failed is None:
            raise
        raise failed from None
    finally:
        threading.excepthook = hook


def _memory(config: Mapping[str, Any], text: str) -> str:
    size = config["data"].get("batch_size")
    device = "GPU" if "CUDA" in text else "machine"
    now = (
        f" (now {size})" if config.get("stage", "fit") == "fit" else ""
    )  # else the checkpoint may have another
    lower = "choose a smaller model, or" if size is None else f"lower data.batch_size{now}, or"
    return f"the {device} is out of memory: {lower} use a machine with more memory"
