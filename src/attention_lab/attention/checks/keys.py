"""Check keys, values and masks: those given to `remember`, and those in a memory."""

import torch
from torch import Tensor

from attention_lab.argument_checks import kind_of
from attention_lab.attention.checks.masks import check_mask
from attention_lab.attention.checks.tensors import broadcast, check_devices
from attention_lab.attention.scores import Score


def check_causal(causal: object) -> None:
    """Raise TypeError if `causal` is a mask or a string, which would always count as true."""
    if isinstance(causal, str | Tensor):
        raise TypeError(f"causal must be True or False, not {kind_of(causal)}: a mask belongs to mask=...")


def check_memory(key: Tensor, value: Tensor, mask: Tensor | None, score: Score) -> None:
    """Raise ValueError unless values are floating-point, and shapes and devices match, as kernels rely on it.

    Args:
        key: `[..., K, dk]`.
        value: `[..., K, dv]`.
        mask: boolean; see `Attention.remember`.
        score: made for keys of one size, with or without heads.
    """
    if not value.is_floating_point():  # the weights would be rounded to integers
        remedy = "value.float(), or mask=... for a mask" if value.dtype == torch.bool else "value.float()"
        raise ValueError(f"values must be floating-point, got {value.dtype}: give {remedy}")
    if torch.compiler.is_compiling():  # a check of shapes would recompile the code for each shape
        return
    if key.dim() < 2 or value.dim() < 2:
        raise ValueError(
            f"keys and values must be [..., K, d], got {list(key.shape)} and {list(value.shape)}"
        )
    check_devices(key, value, mask=mask)
    batch, (keys, features) = key.shape[:-2], key.shape[-2:]
    if features != score.key_size:
        raise ValueError(f"the score was made for keys of size {score.key_size}, got {list(key.shape)}")
    heads = score.heads
    # A score without parameters computes the same for any number of heads.
    if heads is not None and not broadcast(batch[-1:], (heads,)) and any(True for _ in score.parameters()):
        raise ValueError(
            f"the score was made for {heads} heads, keys [B, {heads}, K, {features}], got {list(key.shape)}"
        )
    if value.shape[-2] != keys or not broadcast(value.shape[:-2], batch):
        raise ValueError(f"each key needs a value: got keys {list(key.shape)} and values {list(value.shape)}")
    if mask is None:
        return
    check_mask(mask)
    _check_leading(mask, key)
    if mask.dim() < 2 or mask.shape[-1] not in (1, keys) or not broadcast(mask.shape[:-2], batch):
        raise ValueError(
            "a mask must broadcast to [..., Q, K] and have at least two dimensions, such as [B, 1, K] for "
            f"padding: got {list(mask.shape)} for keys {list(key.shape)}"
        )


def _check_leading(mask: Tensor, key: Tensor) -> None:
    """Raise ValueError if the shape of a mask does not tell whether it is per example or per head."""
    if key.dim() <= 2 or mask.dim() == key.dim() or mask.shape[:-2].numel() <= 1:
        return
    given = f"a mask {list(mask.shape)} for keys {list(key.shape)}"
    if mask.dim() > key.dim():
        raise ValueError(f"{given} has too many dimensions: give as many as the keys have, [..., Q, K]")
    *batch, keys, _ = key.shape
    ones = ["1"] * (len(batch) - 1)
    example, head = ", ".join([str(batch[0]), *ones]), ", ".join([*ones, str(batch[-1])])
    raise ValueError(
        f"{given} is ambiguous, per example or per head: give [{example}, 1, {keys}] to hide padding, "
        f"[{example}, Q, {keys}] to mask each example's queries, or [{head}, Q, {keys}] to mask each head's"
    )


def check_fields(keys: Tensor, value: Tensor, mask: Tensor | None) -> None:
    """Raise ValueError if a field of a memory was replaced by one that does not fit the others."""
    if keys.shape[-2] != value.shape[-2]:  # a fused kernel would read beyond the end
        raise ValueError(
            f"each key of a memory needs a value: got keys {list(keys.shape)} and values {list(value.shape)}"
        )
    if mask is not None:
        check_mask(mask)
