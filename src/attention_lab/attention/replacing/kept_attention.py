"""Attention that a model computes by operations of its own, which stays as it is beside new mechanisms."""

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from attention_lab.attention.recorder import Selection
from attention_lab.attention.recording.recording_mode import RecordingMode
from attention_lab.attention.recording.session import Session

_FIRST = slice(1)
_MOST_NAMED = 3


@contextmanager
def noted_names(model: nn.Module) -> Iterator[list[str]]:
    """The names of the modules of a model that attend, as it runs inside, by operations of their own.

    Also of those that call torch's `multi_head_attention_forward`, whether they are of torch or not.
    """
    names: list[str] = []
    session = Session(model, Selection(_FIRST, _FIRST, _FIRST), None)  # of each attention, a single row
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="recording: ")  # of what cannot be recorded
        with _Noting(session) as mode:
            yield names
    found = [*mode.callers, *session.result]
    names.extend(dict.fromkeys(name.partition("#")[0] for name in found))


class _Noting(RecordingMode):
    """Records attention that is written by hand, and only notes which modules call torch's function.

    Attributes:
        callers: the names of those modules.
    """

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.callers: list[str] = []

    def _functional(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        site = self.session.site()
        if site is not None:
            self.callers.append(site.name)

    def _fused(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Not noted here, as it is replaced or rejected."""


def warn_of_kept(model: nn.Module, attending: Iterable[str], replaced: Iterable[str]) -> None:
    """Warn of modules that attend, but are not replaced, nor parts of a replaced one."""
    new = [*replaced]
    kept = [name for name in attending if not any(_is_in(name, one) for one in new)]
    if kept:
        kinds = {name: type(model.get_submodule(name)).__name__ for name in kept[:_MOST_NAMED]}
        named = ", ".join(f"{name!r} ({kind})" if name else "the model" for name, kind in kinds.items())
        more = f" and {len(kept) - _MOST_NAMED} more" if len(kept) > _MOST_NAMED else ""
        warnings.warn(
            f"replace_attention: the mechanism was not put in {named}{more}, where {type(model).__name__} "
            "attends by operations of its own: they stay as they are",
            stacklevel=3,
        )


def _is_in(name: str, other: str) -> bool:
    return name == other or name.startswith(f"{other}.")
