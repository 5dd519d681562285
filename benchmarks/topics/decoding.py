"""A step of decoding with heads that share keys and values, beside torch's kernel."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from attention_lab.attention import Mechanism, Memory, MultiHead, ScaledDot
from benchmarks.measuring.harness import Comparison, Method, Work

SIZE, HEADS = 512, 8
BATCH, LENGTH = 4, 4096
GPU_BATCH = 64
Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


def comparisons(device: torch.device, quick: bool) -> Iterator[Comparison]:
    """One new token for each sequence, which attends to all positions, with the projections of the layer."""
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    batch, length = (2, 16) if quick else (GPU_BATCH if device.type == "cuda" else BATCH, LENGTH)
    for groups in (HEADS, 2, 1):
        layer, query, memory = _prepared(groups, batch, length, device, dtype)
        cache = memory.keys.element_size() * (memory.keys.numel() + memory.value.numel()) / 2**20
        plain = "torch" if groups == HEADS else "torch, keys repeated for each head"
        methods = [Method(plain, partial(_work, layer, query, memory, _repeated))]
        if groups < HEADS:
            methods.append(Method("torch, enable_gqa=True", partial(_work, layer, query, memory, _grouped)))
        methods.append(Method("ours", partial(_ours, layer, query, memory)))
        yield Comparison(
            f"{HEADS} heads of queries, {groups} of keys and values: "
            f"{batch} x {length:,} positions, {cache:,.0f} MiB in {str(dtype).removeprefix('torch.')}",
            methods,
            reference=partial(_exact, layer, query, memory),
            work=(batch, "tokens/s"),
        )


def _prepared(
    groups: int, batch: int, length: int, device: torch.device, dtype: torch.dtype
) -> tuple[MultiHead, Tensor, Memory]:
    """A layer, the inputs of the last position, and the memory of all positions."""
    torch.manual_seed(1)
    layer = MultiHead(Mechanism(ScaledDot), SIZE, HEADS, key_value_heads=groups).to(device, dtype)
    x = torch.randn(batch, length, SIZE, device=device, dtype=dtype)
    with torch.no_grad():
        memory = layer.remember(x, causal=True)
    return layer, x[:, -1:], memory._replace(keys=memory.keys.contiguous(), value=memory.value.contiguous())


def _ours(layer: MultiHead, query: Tensor, memory: Memory) -> Work:
    offset = memory.value.shape[-2] - 1

    @torch.no_grad()
    def work() -> Sequence[Tensor]:
        return [layer.attend(query, memory, offset=offset)]

    return work


def _work(layer: MultiHead, query: Tensor, memory: Memory, attend: Attend) -> Work:
    """The same step by torch's functions."""

    @torch.no_grad()
    def work() -> Sequence[Tensor]:
        heads = F.linear(query, layer.project.weight[:SIZE], layer.project.bias[:SIZE])
        heads = heads.unflatten(-1, (HEADS, -1)).transpose(1, 2)  # type: ignore[no-untyped-call]
        context = attend(heads, memory.keys, memory.value)
        return [layer.output(context.transpose(1, 2).flatten(-2))]

    return work


def _exact(layer: MultiHead, query: Tensor, memory: Memory) -> Sequence[Tensor]:
    """The formula in float64."""
    double = MultiHead(Mechanism(ScaledDot), SIZE, HEADS, key_value_heads=layer.key_value_heads)
    double.load_state_dict(layer.state_dict())
    given = [x.cpu().double() for x in (query, memory.keys, memory.value)]
    return _work(double.double(), given[0], Memory(given[1], given[2], None), _formula)()


def _formula(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    key, value = (_for_each_head(x) for x in (key, value))
    return torch.softmax(query @ key.mT / query.shape[-1] ** 0.5, -1) @ value


def _repeated(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(query, _for_each_head(key), _for_each_head(value))


def _for_each_head(x: Tensor) -> Tensor:
    groups = x.shape[1]
    return x if groups == HEADS else x.repeat_interleave(HEADS // groups, 1)


def _grouped(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(query, key, value, enable_gqa=True)
