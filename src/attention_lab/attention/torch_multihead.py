"""A drop-in replacement for `torch.nn.MultiheadAttention`: interchangeable parts, no NaN in empty rows."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attention_lab.attention.attention import Mechanism, check_mechanism
from attention_lab.attention.checks.parts import check_torch_module
from attention_lab.attention.checks.tensors import check_tensors
from attention_lab.attention.masks import causal_mask, lengths_mask, mask_and_bias
from attention_lab.attention.scores import ScaledDot


class MultiheadAttention(nn.MultiheadAttention):
    """Multi-head attention (1706.03762, section 3.2.2) with the interface of `torch.nn.MultiheadAttention`.

    Same arguments, same state_dict, same initial weights for the same seed, same outputs. The differences:

    - A query that may attend to no key gets zero weights and a zero context, and contributes no gradient;
      torch gives NaN (pytorch#41508). The output is then the bias of the output projection.
    - `mechanism` puts any score, normaliser, window and pooling in place of scaled dot product and softmax.
    - `recording` sees the weights of every head while the context still comes from the fused kernel.
    - Returned weights are those before dropout, and asking for them does not change the output.
    - `is_causal` needs no `attn_mask`, and never hides the keys that `add_bias_kv` and `add_zero_attn`
      append; torch's module hides them if no weights are asked for.

    Inside `nn.TransformerEncoderLayer` it is called in evaluation too: torch's fused layer, which would
    bypass it, is not used.

    For example:

        layer = nn.TransformerEncoderLayer(512, 8, batch_first=True)
        layer.self_attn = MultiheadAttention.from_torch(layer.self_attn)

    Args:
        embed_dim: size E of queries and outputs.
        num_heads: H, a divisor of E.
        dropout: dropout probability on the attention weights.
        bias: whether the projections have biases.
        add_bias_kv: append a learned key and value to each example.
        add_zero_attn: append a key and a value of zero to each example.
        kdim: size of the keys, by default E.
        vdim: size of the values, by default E.
        batch_first: whether the batch is the first dimension; by default it is the second.
        device: of the parameters.
        dtype: of the parameters.
        mechanism: makes the attention of the heads, each with d_k = d_v = E / H.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
        *,
        mechanism: Mechanism | None = None,
    ) -> None:
        options = (dropout, bias, add_bias_kv, add_zero_attn, kdim, vdim, batch_first)
        super().__init__(embed_dim, num_heads, *options, device=device, dtype=dtype)
        mechanism = Mechanism(ScaledDot) if mechanism is None else mechanism
        check_mechanism(mechanism)
        self.attention = mechanism(self.head_dim, self.head_dim, num_heads, dropout)
        self.attention.part_of_layer = "attention"
        self.attention.to(self.out_proj.weight)
        # In evaluation, TransformerEncoderLayer replaces an attention without hooks by its own kernel.
        self.register_forward_pre_hook(_no_change)

    @classmethod
    def from_torch(
        cls, module: nn.MultiheadAttention, mechanism: Mechanism | None = None
    ) -> "MultiheadAttention":
        """A copy of torch's module: the same weights, trained or frozen as there, and the same mode.

        Raises:
            TypeError: the module is not torch's, or parametrizations, pruning or adapters have changed it.
        """
        check_torch_module(module)
        weight = module.out_proj.weight
        copy = cls(
            module.embed_dim,
            module.num_heads,
            module.dropout,
            bias=module.in_proj_bias is not None,
            add_bias_kv=module.bias_k is not None,
            add_zero_attn=module.add_zero_attn,
            kdim=module.kdim,
            vdim=module.vdim,
            batch_first=module.batch_first,
            device=weight.device,
            dtype=weight.dtype,
            mechanism=mechanism,
        )
        # a score with parameters keeps its own
        copy.load_state_dict(copy.state_dict() | module.state_dict())
        for name, parameter in module.named_parameters():
            copy.get_parameter(name).requires_grad_(parameter.requires_grad)
        return copy.train(module.training)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """The outputs, and the weights if they are needed.

        Args:
            query: `[L, B, E]`, `[B, L, E]` with `batch_first`, `[L, E]`, or nested with `batch_first`.
            key: the same with S in place of L and `kdim` in place of E.
            value: the same with S and `vdim`.
            key_padding_mask: `[B, S]` or `[S]`: boolean, **True = ignored** as in torch, or added to the
                scores.
            need_weights: also return the weights; they are computed separately from the context.
            attn_mask: `[L, S]` or `[B * H, L, S]`: boolean, **True = ignored** as in torch, or added to the
                scores.
            average_attn_weights: return the mean over the heads, `[B, L, S]`, instead of `[B, H, L, S]`.
            is_causal: let a query attend to itself and earlier keys only. As in torch, an `attn_mask` given
                with it is assumed to be the causal mask.

        Raises:
            TypeError: queries, keys, values or a mask are not a tensor.
            AssertionError: (as in torch) the numbers of dimensions do not fit together.
            ValueError: queries, keys or values have the wrong size, or a mask has the wrong size or type.
        """
        masks = {"key_padding_mask": key_padding_mask, "attn_mask": attn_mask}
        given = {name: mask for name, mask in masks.items() if mask is not None}
        check_tensors("MultiheadAttention", nested=True, query=query, key=key, value=value, **given)
        batched = F._mha_shape_check(query, key, value, key_padding_mask, attn_mask, self.num_heads)  # type: ignore[attr-defined]
        if query.is_nested:
            return self._nested(query, key, value, need_weights, attn_mask, average_attn_weights, is_causal)
        _check_sizes(query=(query, self.embed_dim), key=(key, self.kdim), value=(value, self.vdim))
        if not batched:
            query, key, value = _each(lambda x: x[None], query, key, value)
            key_padding_mask = None if key_padding_mask is None else key_padding_mask[None]
        elif not self.batch_first:
            query, key, value = _each(lambda x: x.transpose(0, 1), query, key, value)

        mask, bias, causal = self._masks(query, key, key_padding_mask, attn_mask, is_causal)
        heads, keys, values = self._heads(query, key, value)
        memory = self.attention.remember(keys, values, mask, causal=causal)
        context = self.attention(heads, memory, bias=bias)
        output: Tensor = self.out_proj(context.transpose(1, 2).flatten(-2))
        weights = self.attention.weights(heads, memory, bias=bias) if need_weights else None
        if weights is not None and average_attn_weights:
            weights = weights.mean(1)
        if not batched:
            return output[0], None if weights is None else weights[0]
        return output if self.batch_first else output.transpose(0, 1), weights

    def _heads(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries `[B, H, L, E/H]`, keys and values `[B, H, S', E/H]`, including what the options append."""
        bias: Tensor | None = self.in_proj_bias
        if bias is not None:
            bias = bias.to(self.out_proj.weight.dtype)  # torch's kernels accept biases of a different dtype
        if query is key is value and self._qkv_same_embed_dim:
            projected = list(F.linear(query, self.in_proj_weight, bias).chunk(3, -1))
        else:
            separate = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
            matrices = self.in_proj_weight.chunk(3) if self._qkv_same_embed_dim else separate
            biases = (None,) * 3 if bias is None else bias.chunk(3)
            projected = [F.linear(*of) for of in zip((query, key, value), matrices, biases, strict=True)]
        if self.bias_k is not None and self.bias_v is not None:
            for part, learned in ((1, self.bias_k), (2, self.bias_v)):
                projected[part] = torch.cat([projected[part], learned.expand(query.shape[0], 1, -1)], 1)
        query, key, value = (
            x.view(*x.shape[:2], self.num_heads, self.head_dim).transpose(1, 2) for x in projected
        )
        if self.add_zero_attn:
            key, value = F.pad(key, (0, 0, 0, 1)), F.pad(value, (0, 0, 0, 1))
        return query, key, value

    def _masks(
        self, query: Tensor, key: Tensor, padding: Tensor | None, given: Tensor | None, causal: bool
    ) -> tuple[Tensor | None, Tensor | None, bool]:
        """The mask of the scores, the bias added to them, and whether causal order masks as well.

        The mask is in our convention, True = attend; both broadcast to `[B, H, L, S']`.
        """
        lengths = query.shape[1], key.shape[1]
        appended = (self.bias_k is not None) + self.add_zero_attn
        if causal and appended:  # every query sees the appended keys
            given = ~causal_mask(*lengths, query.device) if given is None else given
            causal = False
        parts = []
        if padding is not None:
            _check_mask("key_padding_mask", padding, (key.shape[0], lengths[1]))
            parts.append(padding[:, None, None])
        if given is not None and not causal:
            _check_mask("attn_mask", given, (query.shape[0] * self.num_heads, *lengths)[-given.dim() :])
            shape = (1, 1) if given.dim() == 2 else (query.shape[0], self.num_heads)
            parts.append(given.view(*shape, *lengths))
        mask = bias = None
        for part in parts:
            if part.dtype == torch.bool:
                keep, added = ~part, None
            else:
                keep, added = mask_and_bias(part)
            mask = keep if mask is None else mask & keep
            if added is not None:
                added = added.to(query.dtype)
                bias = added if bias is None else bias + added
        if appended:  # otherwise padding would only copy
            mask = None if mask is None else F.pad(mask, (0, appended), value=True)
            bias = None if bias is None else F.pad(bias, (0, appended))
        return mask, bias, causal

    def _nested(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        need_weights: bool,
        attn_mask: Tensor | None,
        average_attn_weights: bool,
        is_causal: bool,
    ) -> tuple[Tensor, Tensor | None]:
        """The same for nested tensors: padded, then cut to length again; the weights stay padded."""
        if not self.batch_first:
            raise AssertionError("nested tensors need batch_first=True")
        padded = _each(lambda x: torch.nested.to_padded_tensor(x, 0.0), query, key, value)
        kept = lengths_mask(_lengths(key), padded[1].shape[1]).squeeze(1)
        output, weights = self(
            *padded,
            key_padding_mask=~kept,
            need_weights=need_weights,
            attn_mask=attn_mask,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        rows = [row[:length] for row, length in zip(output, _lengths(query).tolist(), strict=True)]
        return torch.nested.as_nested_tensor(rows, layout=query.layout), weights


def _check_sizes(**given: tuple[Tensor, int]) -> None:
    """Raise ValueError if a last dimension is not the size that the module was made for."""
    if torch.compiler.is_compiling():
        return
    for name, (tensor, size) in given.items():
        if tensor.shape[-1] != size:
            option = "embed_dim" if name == "query" else f"{name[0]}dim"
            raise ValueError(f"{name} must have the size {option}={size}, got {list(tensor.shape)}")


def _check_mask(name: str, mask: Tensor, size: tuple[int, ...]) -> None:
    """Raise ValueError if a mask does not have this size, or is neither boolean nor floating-point."""
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise ValueError(
            f"{name} must be boolean (True = ignored) or floating-point (added to the scores), got "
            f"{mask.dtype}; for a transformers attention_mask (1 = attend), give attention_mask == 0"
        )
    if mask.shape != size:
        raise ValueError(f"{name} must be {list(size)}, got {list(mask.shape)}")


def _each(change: Callable[[Tensor], Tensor], query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
    """Apply `change` to all three; a tensor that is passed twice is changed once, and projected in one go."""
    changed = {id(x): change(x) for x in (query, key, value)}
    return [changed[id(x)] for x in (query, key, value)]


def _lengths(nested: Tensor) -> Tensor:
    """The number of rows of each tensor in a nested one."""
    return torch.tensor([len(part) for part in nested.unbind()], device=nested.device)


def _no_change(module: nn.Module, inputs: Any) -> None:
    """A hook that does nothing."""
