"""A recording in progress: what to record, where the weights go, and which module called a kernel."""

import sys
import threading
import warnings
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import partial
from types import FrameType

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from attention_lab.attention.attention import Attention
from attention_lab.attention.recorder import Recorder, Selection
from attention_lab.attention.recording.caches import at_positions, keys_seen, keys_seen_by_caller
from attention_lab.attention.recording.chosen_modules import ChosenModules
from attention_lab.attention.recording.results import Recording, four_dimensional
from attention_lab.attention.recording.site import (
    CALL_MODULE,
    CallNames,
    ModuleCall,
    Place,
    Site,
    caller,
    first_argument,
    is_apart,
    number_of_examples,
    with_images,
)
from attention_lab.attention.recording.unobserved import compiled_method
from attention_lab.attention.recording.weights import KernelCall, without_nan
from attention_lab.attention.shortcuts import has_parameters_for_heads
from attention_lab.attention.torch_state import recomputing, under_vmap, without_autocast


class Session:
    """The recording of one model.

    Attributes:
        result: the weights recorded so far.
        selection: the examples, heads and queries to record.
        gates: names of modules that multiply features by their softmax, which is not attention.
        elsewhere: names of modules that computed attention in a thread other than the recording's.
    """

    def __init__(self, model: nn.Module, selection: Selection, names: Collection[str] | None) -> None:
        self.result = Recording()
        self._kernel_calls = 0
        self._recorders: dict[str, Recorder] = {}
        self.model = model
        self.selection = selection
        self._modules = {id(module): (name, module) for name, module in model.named_modules()}
        self._chosen = ChosenModules("recording", names, dict(self._modules.values()))
        ours = [one for one in model.modules() if type(one).__module__.startswith("attention_lab.")]
        inside = [part for one in model.modules() if isinstance(one, Attention) for part in one.modules()]
        self._own = {id(one) for one in (*ours, *inside)}  # kernels that they call are not recorded
        self._queries: dict[str, int] = {}
        self._call_names = CallNames()
        self._warned: set[str] = set()
        self._hidden: set[str] = set()
        self.gates: set[str] = set()
        self.elsewhere: set[str] = set()
        self._thread = threading.get_ident()

    @property
    def is_here(self) -> bool:
        """Whether the current thread is that of the recording."""
        return threading.get_ident() == self._thread

    @property
    def calls(self) -> int:
        """A number that grows with every attention that runs, recorded or not."""
        return self._kernel_calls + sum(recorder.queries for recorder in self._recorders.values())

    def attentions(self) -> Iterable[tuple[nn.Module, Recorder]]:
        """Our own attentions that are to be recorded, with a recorder for each."""
        for name, module in self.open_modules():
            if isinstance(module, Attention) and self.wants(name):
                hidden = partial(self._is_hidden, name)
                keep = partial(self._record_own, Site(_recorded_name(name, module), module))
                score = module.unwrapped().score
                heads = has_parameters_for_heads(score, module.normalizer, module.window)
                self._recorders[name] = Recorder(keep, self.selection, hidden, heads)
                yield module, self._recorders[name]

    def _record_own(self, site: Site, weights: Tensor, mask: Tensor | None, centre: Tensor | None) -> None:
        name = self._call_names.name(site, four_dimensional(weights).shape[:2], own=True)
        site = replace(site, name=name, seen=keys_seen_by_caller(sys._getframe(1)))
        self._add(site, weights, mask, centre)

    def modules(self) -> Iterable[tuple[str, nn.Module]]:
        """All modules of the model with their names."""
        return self._modules.values()

    def open_modules(self) -> Iterable[tuple[str, nn.Module]]:
        """The modules whose methods may be replaced: those that are not part of a compiled module."""
        inside = {
            id(part)
            for _, module in self._modules.values()
            if compiled_method(module) is not None or isinstance(module, torch.jit.ScriptModule)
            for part in module.modules()
        }
        return [entry for entry in self._modules.values() if id(entry[1]) not in inside]

    def name_of(self, module: nn.Module) -> str | None:
        """The name of a module in the model; None if the model does not contain it."""
        return self._modules.get(id(module), (None,))[0]

    def wants(self, name: str) -> bool:
        """Whether a module is to be recorded: one that was named, or a part of it."""
        return name in self._chosen

    def site_of(self, name: str | None, module: nn.Module) -> Site | None:
        """The site of a module that is being called; None if it is not to be recorded."""
        if name is None or not self.wants(name) or self._is_hidden(name):
            return None
        return Site(name, module)

    def site(self) -> Site | None:
        """The innermost module of the model that is being called; None if it is not to be recorded here.

        It is the module whose method, or whose function `f(module, ...)`, is running. A module that only
        computes a softmax, such as `nn.Softmax`, is a part of the module that calls it.
        """
        if recomputing():
            return None
        found: tuple[str, nn.Module] | None = None
        inner: FrameType | None = None
        places: list[int] = []
        place: Place = ()
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and not (found is not None and frame.f_code is CALL_MODULE):
            if frame.f_code.co_name == "__torch_function__":
                places.clear()  # frames of modes, such as another recording, do not belong to the model
            else:
                places.append(frame.f_lasti)
            module = first_argument(frame)
            if found is None and id(module) not in self._modules and is_apart(module, frame):
                return None
            if (
                isinstance(module, nn.Module)
                and id(module) in self._modules
                and (module is self.model or not _is_softmax(module))
            ):
                if found is not None and module is not found[1]:
                    break
                found, inner, place = self._modules[id(module)], frame, tuple(places)
            frame = frame.f_back
        if found is None or inner is None or id(found[1]) in self._own or not self.wants(found[0]):
            return None
        if self._is_mapped(found[0]):
            return None
        name, module = found
        site = Site(name, module, keys_seen(module, inner.f_locals), (ModuleCall(inner, frame), place))
        heads = site.number_of_heads
        if not heads:
            return replace(site, caller=caller(frame, module, self._modules))
        examples = number_of_examples(frame, module, self._modules, heads)
        return replace(site, caller=with_images(frame, module, heads), examples=examples)

    def _is_hidden(self, name: str) -> bool:
        """Whether a call of a module must not or cannot be recorded."""
        if not self.is_here:
            self.elsewhere.add(name)
            return True
        return recomputing() or self._is_mapped(name)

    def _is_mapped(self, name: str) -> bool:
        """Whether a module is called under `vmap`, where tensors hide their values; warns of it."""
        if not under_vmap():
            return False
        self.warn(name, "torch.func.vmap", "record a call of the model without vmap")
        return True

    def record_call(self, site: Site, call: KernelCall, *, of_selected: bool = False) -> None:
        """Compute and keep the weights of one call of a kernel.

        Args:
            site: the module that called it.
            call: what it was given.
            of_selected: the call already contains only the selected examples.
        """
        site = replace(site, name=self._call_names.name(site, call.query.shape[:2]))
        queries = call.query.shape[2]
        before = self._count(site.name, queries)
        selection = replace(self.selection, examples=None) if of_selected else self.selection
        # No mode may see what is computed here, and no gradient or cast may affect the model.
        with torch._C.DisableTorchFunction(), torch.no_grad(), without_autocast(call.query):
            weights, mask = call.weights(selection, before)
            self._add(site, weights, mask)

    def record_weights(self, site: Site, weights: Tensor, mask: Tensor | None) -> Callable[[], None]:
        """Keep the selected part of weights `[B, H, Q, K]` that the model itself has computed.

        Args:
            site: the module that computed them.
            weights: those of all examples, heads and queries.
            mask: of the same shape, True = attended; None if it is to be read from the weights.

        Returns:
            A function that drops them again.
        """
        name = self._call_names.name(site, weights.shape[:2])
        queries = weights.shape[2]
        before = self._count(name, queries)
        with torch._C.DisableTorchFunction(), torch.no_grad():
            part = self.selection(weights.detach(), before)
            mask = None if mask is None else self.selection(mask, before)
            part = without_nan(part, mask)  # a copy: the model may later change its weights in place
            self._add(replace(site, name=name), part, part != 0 if mask is None else mask)

        dropped = False

        def forget() -> None:
            nonlocal dropped
            if dropped:
                return
            dropped = True
            self._queries[name] -= queries
            if not self._queries[name]:
                self._call_names.forget(site, name)
            if part.shape[2]:
                self.result.drop(name)

        return forget

    def _add(self, site: Site, weights: Tensor, mask: Tensor | None, centre: Tensor | None = None) -> None:
        """Keep the weights of selected queries, if there are any; in single precision if theirs is half."""
        if weights.shape[-2]:
            if weights.dtype in (torch.float16, torch.bfloat16):
                weights = weights.detach().float()
            if site.seen > weights.shape[-1]:
                mask = weights.new_ones((), dtype=torch.bool) if mask is None else mask
                mask = at_positions(mask.expand_as(weights), site.seen)
            self.result.add(site.name, at_positions(weights, site.seen), mask, centre)

    def _count(self, name: str, queries: int) -> int:
        """Count a call and its queries; return the number of queries before it."""
        self._kernel_calls += 1
        before = self._queries.get(name, 0)
        self._queries[name] = before + queries
        return before

    def check_queries(self) -> None:
        """Raise IndexError if a selected query does not exist in any attention."""
        choice = self.selection.queries
        if choice is None or isinstance(choice, slice) or not self._queries:
            return
        longest = max(self._queries.values())
        for query in choice:
            if not -longest <= query < longest:
                raise IndexError(f"recording: there is no query {query}: an attention had at most {longest}")

    def has_met(self, name: str) -> bool:
        """Whether attention in a module, its parts or a module around it was recorded or warned about.

        True also for a gate, which has no attention.
        """
        met = {one.partition("#")[0] for one, queries in self._queries.items() if queries} | self._hidden
        met |= {one for one, recorder in self._recorders.items() if recorder.queries}
        return name in self.gates or any(
            not one or name in ("", one) or name.startswith(f"{one}.") or one.startswith(f"{name}.")
            for one in met
        )

    def warn(self, name: str, kernel: str, remedy: str) -> None:
        """Warn once for each kernel that its weights cannot be recorded, and say how to get them."""
        self._hidden.add(name)
        if kernel not in self._warned:
            self._warned.add(kernel)
            where = repr(name) if name else "the model"
            message = f"recording: {where} computes attention in {kernel}, which hides its weights: {remedy}"
            warnings.warn(message, stacklevel=2)


def _recorded_name(name: str, attention: Attention) -> str:
    """The name of an attention of our own, or of the layer whose own attention it replaces."""
    if attention.part_of_layer is None:
        return name
    layer, found, _ = f".{name}.".rpartition(f".{attention.part_of_layer}.")
    return layer[1:] if found else name


def _is_softmax(module: nn.Module) -> bool:
    """Whether a module only normalises scores or drops weights, judging by its name and its parameters.

    A class such as `SelfAttentionWithDropout` has matrices of parameters.
    """
    return type(module).__name__.endswith(("Softmax", "Dropout")) and not any(
        is_lazy(one) or sum(size > 1 for size in one.shape) > 1 for one in module.parameters()
    )
