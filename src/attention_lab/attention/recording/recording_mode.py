"""Recording of the functions that a model calls: fused attention, softmax, products, opaque kernels.

A `TorchFunctionMode` sees every call. It never changes one: the function runs first, with its original
arguments, and only then are weights computed.
"""

import re
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from attention_lab.attention.recording.by_hand.calls import OPERATORS
from attention_lab.attention.recording.by_hand.hand_written import ByHand
from attention_lab.attention.recording.fused import fused_call
from attention_lab.attention.recording.libraries.hugging_face import running_interface_call
from attention_lab.attention.recording.libraries.torch_modules import record_projected
from attention_lab.attention.recording.session import Session
from attention_lab.attention.recording.unobserved import Watching
from attention_lab.attention.torch_state import not_compiled_alone

_KERNELS = {F.scaled_dot_product_attention, torch.ops.aten.scaled_dot_product_attention}
_KERNELS |= {torch.ops.aten.scaled_dot_product_attention.default}
_OPAQUE = re.compile(r"attention|attn|fmha|softmax_csr", re.IGNORECASE)
REMEDY = "choose one whose weights can be recorded, such as torch's scaled_dot_product_attention"


class RecordingMode(Watching):
    """Observes the functions that a model calls, and records the attentions among them."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self.by_hand = ByHand(session)

    @not_compiled_alone
    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call the function, then record what it did."""
        kwargs = kwargs or {}
        if torch.compiler.is_compiling():
            return func(*args, **kwargs)
        if func in _KERNELS:
            result = func(*args, **kwargs)
            self._fused(args, kwargs)
            return result
        if func is F.multi_head_attention_forward:
            result = func(*args, **kwargs)
            self._functional(args, kwargs)
            return result
        if isinstance(func, OPERATORS):
            self._opaque(func)
        return self.by_hand.call(func, args, kwargs)

    def _fused(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        site = self.session.site()
        if site is not None:
            query = args[0] if args else kwargs["query"]
            heads = site.heads(len(query)) if query.dim() == 3 else site.number_of_heads
            call, interface = fused_call(heads, *args, **kwargs), running_interface_call()
            call = call if interface is None else call.packed(*interface.query.shape[1:3])
            self.session.record_call(site, call)

    def _functional(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        site = self.session.site()
        if site is not None:
            record_projected(self.session, site, *args, **kwargs)

    def _opaque(self, func: Callable[..., Any]) -> None:
        name = str(func)
        if not name.startswith("prim") and _OPAQUE.search(name):
            site = self.session.site()
            if site is not None and running_interface_call() is None:
                self.session.warn(site.name, f"torch.ops.{name}", REMEDY)
