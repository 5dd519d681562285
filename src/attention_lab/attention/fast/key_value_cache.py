"""The key-value cache of decoding: spare room behind keys and values; a step copies only what is new.

`torch.cat` would copy all of them in every step of decoding, into newly allocated memory. From a few hundred
keys on, that takes longer than attending to them.
"""

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock

import torch
from torch import Tensor

from attention_lab.attention.torch_state import has_values, in_forward_mode, in_torch_func

LEAST = 64
"""The smallest number of spare rows; many keys get half as many spare rows as there are keys."""
_CLAIM = Lock()


class _Room:
    """Buffers whose first `used` rows are taken; the others are spare. Without buffers, there is no room."""

    def __init__(self, buffers: Sequence[Tensor] = (), used: int = 0) -> None:
        self.buffers = buffers
        self.used = used

    def __reduce__(self) -> tuple[type, tuple[()]]:
        """Copies and pickles are an empty dictionary, whose class `torch.load` accepts."""
        return OrderedDict, ()

    def claim(self, rows: int, more: int) -> bool:
        """Whether `more` rows may be written behind the first `rows`: only once, by one thread."""
        with _CLAIM:
            if not self.buffers or self.used != rows or rows + more > self.buffers[0].shape[-2]:
                return False
            self.used += more
            return True


def append_rows(tensors: Sequence[Tensor], more: Sequence[Tensor]) -> list[Tensor]:
    """`torch.cat([x, y], -2)` for each tensor `x` and its `y`.

    No value of `tensors` changes, but the results may share their memory: from the second call on, rows are
    written behind the last one. That can happen only once: if other rows were appended before, `tensors` are
    copied.

    Args:
        tensors: `[..., n, f]`, such as keys and values; what an earlier call returned has room behind it.
        more: `[..., m, f]`.
    """
    grows = _may_grow(tensors, more)
    room = _room_behind(tensors) if grows else None
    if room is None:  # a beam search selects rows in each step, so the spare room would never be used
        grown = [torch.cat(pair, -2) for pair in zip(tensors, more, strict=True)]
        return _with_room(grown, _Room()) if grows else grown
    old, new = tensors[0].shape[-2], more[0].shape[-2]
    if not room.claim(old, new):
        capacity = old + new + max(LEAST, old // 2)
        room = _Room([x.new_empty(*x.shape[:-2], capacity, x.shape[-1]) for x in tensors], old + new)
        for buffer, x in zip(room.buffers, tensors, strict=True):
            buffer[..., :old, :] = x
    for buffer, x in zip(room.buffers, more, strict=True):
        # Through `data`, because autograd may have saved the rows before, which do not change.
        buffer.data[..., old : old + new, :] = x
    return _with_room([buffer[..., : old + new, :] for buffer in room.buffers], room)


def _with_room(tensors: list[Tensor], room: _Room) -> list[Tensor]:
    for x in tensors:
        x._room = room  # type: ignore[attr-defined]
    return tensors


def _may_grow(tensors: Sequence[Tensor], more: Sequence[Tensor]) -> bool:
    """Whether rows may be written in place: autograd, compiled code and transforms could not follow that."""
    if torch.is_grad_enabled() or not has_values(tensors[0]) or in_torch_func() or in_forward_mode():
        return False
    return all(x.dtype == y.dtype and x.device == y.device for x, y in zip(tensors, more, strict=True))


def _room_behind(tensors: Sequence[Tensor]) -> _Room | None:
    """The room behind tensors that an earlier call returned together; None for all others."""
    room = getattr(tensors[0], "_room", None)
    if not isinstance(room, _Room) or any(getattr(x, "_room", None) is not room for x in tensors):
        return None
    if room.buffers and room.buffers[0].is_inference() and not torch.is_inference_mode_enabled():
        return _Room()  # tensors made in inference mode may not be changed outside it
    return room
