"""The module that computes an attention, and the name of each of its attentions."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any
from weakref import ref

import torch
from torch import Tensor, nn

from attention_lab.attention.attention import Attention

CALL_MODULE = nn.Module._call_impl.__code__

_NAMES_OF_HEADS = (
    *("num_heads", "n_heads", "n_head", "nhead", "heads", "num_attention_heads"),
    *("num_head", "nheads", "head_num", "head_count"),
)

Place = tuple[int, ...]
"""The position in the code of each frame, from a module's method to the call of a function."""


@dataclass(frozen=True)
class Caller:
    """The module that calls another one, and knows the number of heads that the other does not declare.

    Attributes:
        numbers: the numbers of heads that it declares.
        sizes: the first two sizes of its input: examples, then positions, or the other way round.
    """

    numbers: tuple[int, ...]
    sizes: tuple[int, ...]

    def heads(self, joined: int) -> int | None:
        """The number of heads in a dimension of examples times heads; None if no number fits the input."""
        for size in self.sizes:
            if size == joined:
                return None
            if size and joined % size == 0 and joined // size in self.numbers:
                return joined // size
        return None


class ModuleCall:
    """A call of a module; keeps none of the module's tensors alive.

    The frame of a later call may have the same address. Such a call differs in its inputs or in the place
    that it is called from.

    Args:
        running: the frame of the method that runs.
        outer: the frame that `nn.Module.__call__` has for this call, if the method is called by it.
    """

    def __init__(self, running: FrameType, outer: FrameType | None) -> None:
        given = _tensors(outer) if outer is not None and outer.f_code is CALL_MODULE else []
        self._inputs = [ref(x) for x in given]  # references to one object are one object
        self._stack, frame = [id(running)], running.f_back
        while frame is not None:
            self._stack += id(frame), frame.f_lasti
            frame = frame.f_back

    def is_same(self, other: "ModuleCall") -> bool:
        """Whether two attentions are computed in the same call."""
        inputs, others = ([id(one) for one in call._inputs] for call in (self, other))
        return self._stack == other._stack and inputs == others


@dataclass(frozen=True)
class Site:
    """The module that computes an attention.

    Attributes:
        name: its name in the model.
        module: the module.
        seen: the number of keys so far, if the cache holds only the most recent ones; see `caches`.
        place: the call of the module, and where in its code the attention is computed; None if a module
            computes only one.
        caller: the module that calls this one, if only that one declares a number of heads; the module itself
            if it declares one and its input is a batch of images.
        examples: the number of examples that the model is called with, if the module declares its number of
            heads; None if unknown.
    """

    name: str
    module: nn.Module
    seen: int = 0
    place: tuple[ModuleCall, Place] | None = None
    caller: Caller | None = None
    examples: int | None = None

    def heads(self, joined: int) -> int:
        """The number of heads, for tensors whose first dimension is examples times heads."""
        if joined == self.examples or (self.caller is not None and joined == self.caller.sizes[0]):
            return 1  # examples, with one head
        own = next((heads for heads in numbers_of_heads(self.module) if joined % heads == 0), None)
        return own or self.heads_of_caller(joined) or 1

    def heads_of_caller(self, joined: int) -> int | None:
        """The number of heads that the first dimension contains, judging by the input of the caller."""
        return None if self.caller is None else self.caller.heads(joined)

    def may_have_heads(self, number: int) -> bool:
        """Whether the module declares this number of heads, or, if it declares none, its caller does."""
        if self.number_of_heads is not None:
            return number == self.number_of_heads or number in _counts(self.module)
        return self.caller is not None and number in self.caller.numbers

    @property
    def number_of_heads(self) -> int | None:
        """The number of heads that the module declares; None if it declares none."""
        return next(numbers_of_heads(self.module), None)


def numbers_of_heads(module: nn.Module) -> Iterator[int]:
    """The numbers of heads that a module declares, under the attribute names that models use."""
    for name in _NAMES_OF_HEADS:
        heads = getattr(module, name, getattr(module, f"_{name}", None))
        if isinstance(heads, int) and heads > 0:
            yield heads


def first_argument(frame: FrameType) -> object:
    """The first argument of a method or function call."""
    code = frame.f_code
    return frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None


def is_apart(module: object, frame: FrameType) -> bool:
    """Whether a module outside the model, whose method runs in a frame, computes attention of its own.

    That is so for an assistant that generates for the model, and for a copy of one of our own attentions,
    which records itself; see `Attention.unwrapped`.
    """
    copied = isinstance(module, Attention) and module.record is not None
    return copied or (isinstance(module, nn.Module) and frame.f_code.co_name == "generate")


def caller(frame: FrameType | None, inside: nn.Module, modules: Collection[int]) -> Caller | None:
    """The innermost module around another one that declares a number of heads.

    Args:
        frame: where the search starts; it proceeds outwards.
        inside: the other module.
        modules: identities of the modules of the model.
    """
    while frame is not None:
        if frame.f_code is CALL_MODULE:
            module, given = frame.f_locals["self"], _tensors(frame)
            numbers = _counts(module) if module is not inside and id(module) in modules else ()
            if numbers and given:
                return Caller(numbers, tuple(given[0].shape[:2]))
        frame = frame.f_back
    return None


def with_images(frame: FrameType | None, module: nn.Module, heads: int) -> Caller | None:
    """A module that declares its number of heads, and the number of its images; None if it gets no images.

    Other tensors may have examples and heads in one dimension already.

    Args:
        frame: the call of the module.
        module: the module.
        heads: its number of heads.
    """
    if frame is None or frame.f_code is not CALL_MODULE or frame.f_locals["self"] is not module:
        return None
    given = next(iter(_tensors(frame)), None)
    return Caller((heads,), (len(given),)) if given is not None and given.dim() == 4 else None


def number_of_examples(
    frame: FrameType | None, inside: nn.Module, modules: Collection[int], heads: int
) -> int | None:
    """The number of examples in the inputs of the model; None if it cannot be determined.

    Queries, keys and values may have examples and heads in one dimension already, as may the input of a
    module without layers. If the first size is the second times the heads, the second may be the examples.
    Features in two dimensions may be those of one sequence.

    Args:
        frame: where the search for the outermost module starts; it proceeds outwards.
        inside: the module that attends.
        modules: identities of the modules of the model.
        heads: its number of heads.
    """
    outermost = None
    while frame is not None:
        if frame.f_code is CALL_MODULE and id(frame.f_locals["self"]) in modules:
            outermost = frame
        frame = frame.f_back
    if outermost is None or next(outermost.f_locals["self"].children(), None) is None:
        return None
    given = [
        x
        for x in _tensors(outermost)
        if x.dtype != torch.bool and x.dim() >= (3 if x.is_floating_point() else 2)
    ]
    if len(given) > 1 and outermost.f_locals["self"] is inside:  # queries, keys and values
        return None
    sizes = {len(x) for x in given}
    if len(sizes) != 1 or any(len(x) == x.shape[1] * heads for x in given):
        return None
    return sizes.pop()


def _tensors(frame: FrameType) -> list[Tensor]:
    """The tensors that a module is called with."""
    given: list[Any] = [*frame.f_locals["args"], *frame.f_locals["kwargs"].values()]
    return [x for x in given if isinstance(x, Tensor)]


def _counts(module: nn.Module) -> tuple[int, ...]:
    """All numbers of heads that a module has, such as those that attend locally."""
    return tuple(
        value
        for name, value in vars(module).items()
        if type(value) is int and value > 1 and "head" in name and "dim" not in name and "size" not in name
    )


class CallNames:
    """The names of the attentions of each module: its own name, then `name#2`, `name#3`, and so on.

    Calls from one place in a module's code are steps of one attention. A different place, or a different
    number of examples or heads, means a different attention.
    """

    def __init__(self) -> None:
        self._places: dict[str, tuple[ModuleCall, list[Place]]] = {}
        self._known: dict[str, list[tuple[int, tuple[int, ...]]]] = {}

    def name(self, site: Site, sizes: tuple[int, ...], *, own: bool = False) -> str:
        """The name of a call; the numbering of places restarts with each call of the module.

        Args:
            site: the module that computes attention.
            sizes: the number of examples, and of heads.
            own: it is our `Attention`, in a layer that may compute another attention as well.
        """
        place = -1 if own else 0
        if site.place is not None:
            call, here = site.place
            last, places = self._places.get(site.name, (call, []))
            places = places if last.is_same(call) else []
            if here not in places:
                places.append(here)
            self._places[site.name] = call, places
            place = places.index(here)
        known = self._known.setdefault(site.name, [])
        if (place, sizes) not in known:
            known.append((place, sizes))
        return _numbered(site.name, known.index((place, sizes)) + 1)

    def forget(self, site: Site, name: str) -> None:
        """Give the number of a name to another attention, if it was the last number."""
        if name == _numbered(site.name, len(self._known[site.name])):
            self._known[site.name].pop()


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}#{number}"
