"""Modules named attention whose attention cannot be recorded: linear, deformable, banded."""

import re
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import nn

from attention_lab.attention.recording.session import Session

_ATTENTION = re.compile("(attention|attentive|attn)(?!output)", re.IGNORECASE)  # no AttentionOutput
_MOST_NAMED = 3
_NOT_SEEN = (
    "where no softmax over keys is multiplied with values: if the model can return such weights itself, "
    "ask for them, as with output_attentions=True in transformers"
)
_ELSEWHERE = -1  # a number that no thread has
_NOT_HERE = "which ran in another thread: run the model in the thread of the recording"


class _Ran:
    """A hook that notes that a module has run; in a copy of the module it notes nothing.

    Args:
        names: where the name is noted, with the class and the thread.
        name: that of the module.
    """

    def __init__(self, names: dict[str, tuple[str, int]], name: str) -> None:
        self.names, self.name = names, name

    def __call__(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: object
    ) -> None:
        """Note the names of the module and its class, unless it has returned an input unchanged."""
        if output is None or not any(output is given for given in (*args, *kwargs.values())):
            self.names[self.name] = type(module).__name__, threading.get_ident()

    def __reduce__(self) -> tuple[type, tuple[dict[str, tuple[str, int]], str]]:
        return _Ran, ({}, self.name)


@contextmanager
def missed_attention_named(session: Session) -> Iterator[None]:
    """Warn, at the end, about modules whose class is named after attention but that were not recorded."""
    ran: dict[str, tuple[str, int]] = {}
    with ExitStack() as stack:
        for name, module in session.open_modules():
            if _ATTENTION.search(type(module).__name__) and session.wants(name) and not _is_known(module):
                stack.enter_context(module.register_forward_hook(_Ran(ran, name), with_kwargs=True))
        yield
    kinds = {name: type(module).__name__ for name, module in session.modules() if name in session.elsewhere}
    ran |= {name: (kind, _ELSEWHERE) for name, kind in kinds.items()}
    missed = {name: entry for name, entry in ran.items() if not session.has_met(name)}
    inner = [name for name in missed if not any(other.startswith(f"{name}.") for other in missed)]
    for is_here, reason in ((False, _NOT_HERE), (True, _NOT_SEEN)):
        names = [name for name in inner if (missed[name][1] == threading.get_ident()) is is_here]
        if names:
            named = first_of([f"{name!r} ({missed[name][0]})" for name in names])
            warnings.warn(f"recording: nothing was recorded for {named}, {reason}", stacklevel=6)


def first_of(modules: Sequence[str]) -> str:
    """The first few modules, as a warning names them, and the number of the others."""
    named = ", ".join(modules[:_MOST_NAMED])
    return f"{named} and {len(modules) - _MOST_NAMED} more" if len(modules) > _MOST_NAMED else named


def _is_known(module: nn.Module) -> bool:
    """Whether a module is ours or torch's: it is recorded, and a hook would switch off its fast path."""
    return isinstance(module, nn.MultiheadAttention) or type(module).__module__.startswith(
        ("torch.", "attention_lab.")
    )
