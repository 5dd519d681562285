"""`nn.MultiheadAttention` and the layers of `nn.TransformerEncoder`, without disturbing their fast paths.

These modules leave their fused paths if anything observes the functions that they call. They therefore run
unobserved, and the weights are computed separately from their inputs and parameters.
"""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attention_lab.attention.recorder import Index
from attention_lab.attention.recording.fused import padded
from attention_lab.attention.recording.session import Session
from attention_lab.attention.recording.site import Site
from attention_lab.attention.recording.unobserved import Watching, unobserved
from attention_lab.attention.recording.weights import KernelCall
from attention_lab.attention.torch_multihead import MultiheadAttention
from attention_lab.attention.torch_state import uncached_autocast

Forward = Callable[..., Any]
Wrap = Callable[[Forward], Forward]
"""Turns a method into a recorded one."""


def torch_forwards(session: Session, mode: Watching) -> list[tuple[nn.Module, str, Forward]]:
    """Replacements for the methods of torch's modules during a recording."""
    found: list[tuple[nn.Module, str, Forward]] = []

    def observed() -> AbstractContextManager[Any]:
        return mode if session.is_here else nullcontext()

    for name, module in session.open_modules():
        match module:
            case nn.MultiheadAttention() if type(module).forward is nn.MultiheadAttention.forward:
                found.append((module, "forward", _multihead(session, name, module, module.forward)))
            case nn.TransformerEncoderLayer():
                if type(module).forward is nn.TransformerEncoderLayer.forward:
                    found.append((module, "forward", _layer(session, name, module, module.forward)))
                found.append((module, "_sa_block", _within(observed, module._sa_block)))
            case nn.TransformerEncoder():
                if type(module).forward is nn.TransformerEncoder.forward:
                    found.append((module, "forward", _within(unobserved, module.forward)))
                found += [
                    (layer, "forward", _within(observed, layer.forward))
                    for layer in module.layers
                    if type(layer).forward is not nn.TransformerEncoderLayer.forward
                ]
    return found


def inherited_forwards(session: Session) -> list[tuple[type[nn.Module], nn.Module, Wrap]]:
    """The classes of torch whose `forward` a module of a derived class may call, and how it is recorded."""
    found: list[tuple[type[nn.Module], nn.Module, Wrap]] = []
    bases: list[tuple[type[nn.Module], Callable[..., Forward]]] = [
        (nn.MultiheadAttention, _multihead),
        (nn.TransformerEncoderLayer, _layer),
        (nn.TransformerEncoder, lambda session, name, module, method: _within(unobserved, method)),
    ]
    for name, module in session.open_modules():
        for base, wrap in bases:
            derived = isinstance(module, base) and type(module).forward is not base.forward
            if derived and not isinstance(module, MultiheadAttention):
                found.append((base, module, partial(wrap, session, name, module)))
    return found


def _within(context: Callable[[], AbstractContextManager[Any]], method: Forward) -> Forward:
    """A method that runs in a context."""

    def forward(*args: Any, **kwargs: Any) -> Any:
        with context():
            return method(*args, **kwargs)

    return forward


def _multihead(session: Session, name: str, module: nn.MultiheadAttention, method: Forward) -> Forward:
    """The forward method of an `nn.MultiheadAttention`, recorded."""

    def forward(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> Any:
        """Run the module's own method, then record its call."""
        with unobserved():
            arguments = (key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal)
            result = method(query, key, value, *arguments)
        causal = is_causal and not need_weights
        _record_module(session, name, module, query, key, key_padding_mask, attn_mask, causal)
        return result

    return forward


def _layer(session: Session, name: str, layer: nn.TransformerEncoderLayer, method: Forward) -> Forward:
    """The forward method of an `nn.TransformerEncoderLayer`, recorded on its fast path as well."""
    attention = f"{name}.self_attn" if name else "self_attn"

    def forward(
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Any:
        """Run the layer's own method, then record its attention if nothing inside did so."""
        calls = session.calls
        with unobserved():
            result = method(src, src_mask, src_key_padding_mask, is_causal)
        if (
            session.calls == calls
            and isinstance(layer.self_attn, nn.MultiheadAttention)
            and not isinstance(layer.self_attn, MultiheadAttention)  # ours has recorded itself
            and not layer.training
        ):
            if src.is_nested:
                src, real = padded(src)
                src_key_padding_mask = ~real
            if layer.norm_first:
                src = F.layer_norm(src, src.shape[-1:], layer.norm1.weight, layer.norm1.bias, layer.norm1.eps)
            # The fused layer treats every nonzero number as "masked".
            padding, mask = (x if x is None else x.bool() for x in (src_key_padding_mask, src_mask))
            _record_module(session, attention, layer.self_attn, src, src, padding, mask)
        return result

    return forward


def _record_module(
    session: Session,
    name: str,
    module: nn.MultiheadAttention,
    query: Tensor,
    key: Tensor,
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
    is_causal: bool = False,
) -> None:
    """Record one call of an `nn.MultiheadAttention`."""
    site = session.site_of(name, module)
    if site is None:
        return
    if query.is_nested:
        query, real = padded(query)
        key, key_padding_mask = query, ~real
    if module.batch_first and query.dim() == 3:
        query, key = query.transpose(0, 1), key.transpose(0, 1)
    record_projected(
        session,
        site,
        query,
        key,
        key,
        module.embed_dim,
        module.num_heads,
        module.in_proj_weight,
        module.in_proj_bias,
        module.bias_k,
        module.bias_v,
        module.add_zero_attn,
        key_padding_mask=key_padding_mask,
        need_weights=False,
        attn_mask=attn_mask,
        use_separate_proj_weight=not module._qkv_same_embed_dim,
        q_proj_weight=module.q_proj_weight,
        k_proj_weight=module.k_proj_weight,
        is_causal=is_causal,
    )


def record_projected(
    session: Session,
    site: Site,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    *unused: Any,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    is_causal: bool = False,
    **others: Any,
) -> None:
    """Record a call of `F.multi_head_attention_forward` from its own arguments: project, then compare."""
    if query.dim() == 2:
        query, key = query.unsqueeze(1), key.unsqueeze(1)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    _, batch, size = query.shape
    index = session.selection.of_batch(batch)
    with torch._C.DisableTorchFunction(), torch.no_grad(), uncached_autocast(query):
        query, key = query.detach()[:, index], key.detach()[:, index]
        packed = (q_proj_weight, k_proj_weight) if use_separate_proj_weight else (in_proj_weight,)
        of_query, of_key = _projections(*packed)
        biases = (None, None) if in_proj_bias is None else in_proj_bias.chunk(3)[:2]
        q = F.linear(query, of_query, biases[0])
        if static_k is not None:
            k = static_k.view(batch, num_heads, *static_k.shape[1:])[index].permute(2, 0, 1, 3).flatten(2)
        else:
            k = F.linear(key, of_key, biases[1])
        if bias_k is not None:
            k = torch.cat([k, bias_k.expand(1, k.shape[1], size).to(k.dtype)])
        if add_zero_attn:
            k = torch.cat([k, k.new_zeros(1, *k.shape[1:])])
        q, k = (x.view(*x.shape[:2], num_heads, x.shape[-1] // num_heads).permute(1, 2, 0, 3) for x in (q, k))
        causal = is_causal and key_padding_mask is None and not need_weights
        mask = None if causal else _merged(attn_mask, key_padding_mask, batch, num_heads, index, k.shape[2])
    call = KernelCall(q, k, 1 / math.sqrt(size // num_heads), mask, causal)
    session.record_call(site, call, of_selected=True)


def _projections(*matrices: Tensor | None) -> tuple[Tensor, Tensor]:
    """The matrices that make queries and keys, given separately or packed."""
    if len(matrices) == 1 and matrices[0] is not None:
        matrices = matrices[0].chunk(3)[:2]
    of_query, of_key = matrices
    assert of_query is not None and of_key is not None
    return of_query, of_key


def _merged(
    attn_mask: Tensor | None, key_padding_mask: Tensor | None, batch: int, heads: int, index: Index, keys: int
) -> Tensor | None:
    """Both masks combined: boolean with True = attend, or additive if one of them is."""
    found = []
    if attn_mask is not None:
        split = attn_mask.dim() == 3
        found.append(
            attn_mask.view(batch, heads, *attn_mask.shape[1:])[index] if split else attn_mask[None, None]
        )
    if key_padding_mask is not None:
        found.append(key_padding_mask[index][:, None, None, :])
    # bias_k and zero attention add keys that every query sees
    found = [F.pad(mask, (0, keys - mask.shape[-1])) for mask in found]
    if not found:
        return None
    if all(mask.dtype == torch.bool for mask in found):
        return ~(found[0] if len(found) == 1 else found[0] | found[1])
    biases = [_bias(mask) for mask in found]
    return biases[0] if len(biases) == 1 else biases[0] + biases[1]


def _bias(mask: Tensor) -> Tensor:
    """A mask with True = masked, converted to a bias on the scores."""
    if mask.dtype != torch.bool:
        return mask
    return torch.zeros(mask.shape, device=mask.device).masked_fill(mask, -torch.inf)
