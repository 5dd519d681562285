"""Determine what a checkpoint's pickle would build, without building it.

`torch.load(weights_only=True)` calls only a fixed list of functions, but some of them allocate any size they
are given (`bytearray(2**30)`), and it builds views of a storage without checking its length. So the
instructions are first simulated here, using only numbers and strings. Instructions that this project's
checkpoints do not need are rejected.
"""

import pickle
import pickletools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from attention_lab.errors import LabError

MOST_INSTRUCTIONS = 2_000_000
"""Maximum number of instructions. Each builds at most one small value, so this also limits the memory."""
MOST_CALLS = 200_000
"""Maximum number of tensors and ordered dictionaries, the largest of these values."""
LARGEST_KEY = 1 << 20
"""Limit of a dictionary's integer keys: larger ones could be chosen so that their hashes collide."""
MOST_DIMENSIONS = 64
"""Maximum number of dimensions of a tensor; the product of thousands of sizes would take hours."""
BYTES = {
    **dict.fromkeys(("Byte", "Char", "Bool"), 1),
    **dict.fromkeys(("Half", "BFloat16", "Short"), 2),
    **dict.fromkeys(("Float", "Int"), 4),
    **dict.fromkeys(("Double", "Long", "ComplexFloat"), 8),
    "ComplexDouble": 16,
}
"""Bytes per element, by the kind of storage."""
NOT_PLAIN = "it contains more than plain values and complete tensors"


class _Global(NamedTuple):
    name: str


class _Storage(NamedTuple):
    elements: int


class _Built(NamedTuple):
    """A list, dictionary or tensor, without its content."""

    kind: str


_LIST, _DICT, _ORDERED = _Built("list"), _Built("dict"), _Built("ordered")
_TENSOR, _SIZE = _Built("tensor"), _Built("size")


def check_pickle(content: bytes, records: Mapping[str, int]) -> None:
    """Reject a pickle that builds anything but plain values and tensors that lie within their records.

    Args:
        content: the pickle.
        records: the size in bytes of each storage in the archive, by its name.

    Raises:
        pickle.UnpicklingError: it would call or build something that no checkpoint of this project needs.
        LabError: a tensor claims more elements than its storage has.
        ValueError, LookupError, TypeError: it is damaged, or a size in it differs from that of its record.
    """
    _Machine(records).run(content)


class _Machine:
    """Simulates the instructions of a pickle in protocol 2."""

    def __init__(self, records: Mapping[str, int]) -> None:
        self.records = records
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []  # stacks under a mark
        self.memo: dict[int, Any] = {}
        self.kinds: dict[str, str] = {}  # of the storages so far, by the names of their records
        self.calls = 0

    def run(self, content: bytes) -> None:
        for number, (instruction, argument, _) in enumerate(pickletools.genops(content)):
            if number > MOST_INSTRUCTIONS:
                raise pickle.UnpicklingError(f"more than {MOST_INSTRUCTIONS} values")
            self._step(instruction.name, argument)

    def _step(self, name: str, argument: Any) -> None:
        if name in _PLAIN:
            if name == "LONG1" and not -(2**63) <= argument < 2**63:
                raise pickle.UnpicklingError("a number of more than 8 bytes")
            self.stack.append(_PLAIN[name](argument))
        elif name in _TO_MARK:
            values, self.stack = self.stack, self.below.pop()
            self._gather(name, values)
        elif name in _STEPS:
            _STEPS[name](self, argument)
        elif name not in ("PROTO", "STOP"):
            raise pickle.UnpicklingError(f"the instruction {name}")

    def _put(self, index: int) -> None:
        self.memo[index] = self.stack[-1]

    def _get(self, index: int) -> None:
        self.stack.append(self.memo[index])

    def _mark(self, _: None) -> None:
        self.below.append(self.stack)
        self.stack = []

    def _append(self, _: None) -> None:
        self._gather("APPENDS", self._pop(1))

    def _set(self, _: None) -> None:
        self._gather("SETITEMS", self._pop(2))

    def _build(self, _: None) -> None:
        """Set attributes of an ordered dictionary; they are checked after loading."""
        _expect(self._pop(1)[0], _DICT, _ORDERED)
        _expect(self.stack[-1], _ORDERED)

    def _pop(self, count: int) -> list[Any]:
        if len(self.stack) < count:
            raise ValueError("a value is missing")
        values = self.stack[-count:]
        del self.stack[-count:]
        return values

    def _gather(self, name: str, values: Sequence[Any]) -> None:
        """Make a tuple of the values since a mark, or add them to the list or dictionary below the mark."""
        if name == "TUPLE":
            self.stack.append(tuple(values))
        elif name == "APPENDS":
            _expect(self.stack[-1], _LIST)
        else:
            _expect(self.stack[-1], _DICT, _ORDERED)
            for key in values[::2]:
                if type(key) is not str and not (type(key) is int and 0 <= key < LARGEST_KEY):
                    raise pickle.UnpicklingError("a key that is neither a string nor a small number")

    def _call(self, _: None) -> None:
        self.calls += 1
        if self.calls > MOST_CALLS:
            raise pickle.UnpicklingError(f"more than {MOST_CALLS} tensors")
        function, arguments = self._pop(2)
        if type(function) is not _Global or function.name not in _CALLED or type(arguments) is not tuple:
            raise pickle.UnpicklingError("it calls a function that no checkpoint needs")
        self.stack.append(_CALLED[function.name](*arguments))

    def _refer(self, _: None) -> None:
        word, kind, key, _place, elements = self._pop(1)[0]
        # Hashing a tuple that contains another one twice, and so on, would take forever.
        if (word, type(kind), type(key), type(elements)) != ("storage", _Global, str, int):
            raise pickle.UnpicklingError("a reference to something other than a storage")
        size = BYTES[kind.name.removeprefix("torch.").removesuffix("Storage")]
        if self.records[key] != elements * size:
            raise ValueError(f"the record {key} has {self.records[key]} bytes, not {elements} times {size}")
        if self.kinds.setdefault(key, kind.name) != kind.name:
            raise ValueError(f"the record {key} is a storage of two types")
        self.stack.append(_Storage(elements))


def _global(argument: str) -> _Global:
    name = argument.replace(" ", ".")
    kind = name.removeprefix("torch.").removesuffix("Storage")
    if name not in _CALLED and not (kind in BYTES and name == f"torch.{kind}Storage"):
        raise pickle.UnpicklingError(name)
    return _Global(name)


def _expect(value: Any, *kinds: _Built) -> None:
    if not any(value is kind for kind in kinds):
        raise pickle.UnpicklingError("an instruction for another kind of value")


def _tensor(storage: Any, offset: Any, size: Any, stride: Any, *_: Any) -> _Built:
    """A view of a storage, which must lie within it and not have more elements."""
    size = _counts(size)
    steps = _counts(stride)
    count, last = 1, _counts((offset,))[0]
    for length, step in zip(size, steps, strict=True):
        count *= length
        last += (length - 1) * step
    if type(storage) is not _Storage:
        raise pickle.UnpicklingError("a tensor without storage")
    if count > storage.elements or (count and last >= storage.elements):
        raise LabError(NOT_PLAIN)
    return _TENSOR


def _counts(values: Any) -> tuple[int, ...]:
    if type(values) is not tuple or len(values) > MOST_DIMENSIONS:
        raise pickle.UnpicklingError("a size that is not that of a tensor")
    if any(type(one) is not int or one < 0 for one in values):
        raise pickle.UnpicklingError("a size that is not a count")
    return values


def _parameter(tensor: Any, *_: Any) -> _Built:
    _expect(tensor, _TENSOR)
    return _TENSOR


def _shape(values: Any = ()) -> _Built:
    _counts(values)
    return _SIZE


_PLAIN: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE"), lambda value: value),
    "NONE": lambda _: None,
    "NEWTRUE": lambda _: True,
    "NEWFALSE": lambda _: False,
    "EMPTY_TUPLE": lambda _: (),
    "EMPTY_LIST": lambda _: _LIST,
    "EMPTY_DICT": lambda _: _DICT,
}
_TO_MARK = ("TUPLE", "APPENDS", "SETITEMS")
_CALLED: dict[str, Callable[..., _Built]] = {
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_parameter": _parameter,
    "torch.Size": _shape,
    "collections.OrderedDict": lambda: _ORDERED,
}
_STEPS: dict[str, Callable[[_Machine, Any], None]] = {
    **dict.fromkeys(("BINPUT", "LONG_BINPUT"), _Machine._put),
    **dict.fromkeys(("BINGET", "LONG_BINGET"), _Machine._get),
    "TUPLE1": lambda machine, _: machine._gather("TUPLE", machine._pop(1)),
    "TUPLE2": lambda machine, _: machine._gather("TUPLE", machine._pop(2)),
    "TUPLE3": lambda machine, _: machine._gather("TUPLE", machine._pop(3)),
    "GLOBAL": lambda machine, argument: machine.stack.append(_global(argument)),
    "MARK": _Machine._mark,
    "APPEND": _Machine._append,
    "SETITEM": _Machine._set,
    "REDUCE": _Machine._call,
    "BINPERSID": _Machine._refer,
    "BUILD": _Machine._build,
}
