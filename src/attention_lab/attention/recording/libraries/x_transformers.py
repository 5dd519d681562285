"""The attention of x-transformers without a fused kernel: any normaliser, sinks, soft clamps."""

from collections.abc import Callable
from typing import Any

from torch import nn

from attention_lab.attention.recording.session import Session
from attention_lab.attention.recording.unobserved import unobserved
from attention_lab.attention.recording.weights import attended


def x_transformers_forwards(session: Session) -> list[tuple[nn.Module, str, Callable[..., Any]]]:
    """Replacements for the methods of `Attend` modules that do not call a fused kernel."""
    return [
        (module, "forward", _attend(session, name, module))
        for name, module in session.open_modules()
        if type(module).__name__ == "Attend" and type(module).__module__.startswith("x_transformers.")
    ]


def _attend(session: Session, name: str, module: nn.Module) -> Callable[..., Any]:
    """The forward method of an `Attend`, recorded from the weights that it returns with its output."""
    method = module.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        """Run the module's own method, then record the weights that it returns."""
        if module.flash and kwargs.get("attn_delta") is None:
            return method(*args, **kwargs)
        with unobserved():
            result = method(*args, **kwargs)
        weights, scores = result[1].post_softmax_attn, result[1].pre_softmax_attn
        site = session.site_of(name, module)
        if site is not None and weights is not None:
            weights, scores = weights.detach(), scores.detach()
            mask = kwargs.get("mask")
            if mask is not None:  # the output is set to zero where a query sees no key
                mask = mask[:, None, None, :] if mask.dim() == 2 else mask
                none = ~mask.any(-1, keepdim=True)
                weights = weights.masked_fill(none, 0.0) if none.any() else weights
            visible = attended(scores)
            if module.head_learned_sink:
                weights, visible = weights[..., 1:], visible[..., 1:]
            session.record_weights(site, weights, visible)
        return result

    return forward
