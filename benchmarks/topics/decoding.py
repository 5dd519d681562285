"""Decoding against torch's kernel: a step of heads that share keys and values, and a whole sequence."""

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
STEPS = 512
Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
Step = Callable[[Tensor], Tensor]


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
    yield _sequence(batch, 3 if quick else STEPS, device, dtype)


def _sequence(batch: int, steps: int, device: torch.device, dtype: torch.dtype) -> Comparison:
    """A sequence that a layer reads one position at a time, as in generating."""
    layer, _, _ = _prepared(HEADS, batch, 1, device, dtype)
    x = torch.randn(batch, steps, SIZE, device=device, dtype=dtype)

    def by_steps(start: Callable[..., Step], *sizes: int) -> Work:
        @torch.no_grad()
        def work() -> Sequence[Tensor]:
            step = start(layer, *sizes)
            return [torch.cat([step(one) for one in torch.split(x, 1, 1)], 1)]

        return work

    def exact() -> Sequence[Tensor]:
        return [_doubled(layer)(x.cpu().double(), causal=True).detach()]

    return Comparison(
        f"{batch} sequences of {steps:,}, one position at a time, {HEADS} heads",
        [
            Method("torch, all keys copied in each step", partial(by_steps, _Appended)),
            Method("torch, a buffer for all keys", partial(by_steps, _Buffered, batch, steps)),
            Method("ours", partial(by_steps, _Stepped)),
        ],
        reference=exact,
        note="The buffer is as long as the sequence, which has to be known before.",
        work=(batch * steps, "tokens/s"),
    )


class _Stepped:
    """Our layer and its memory."""

    def __init__(self, layer: MultiHead) -> None:
        self.layer = layer
        self.memory: Memory | None = None

    def __call__(self, x: Tensor) -> Tensor:
        """The output for one more position."""
        output, self.memory = self.layer.step(x, self.memory)
        return output


class _Appended:
    """The same by torch's functions; keys and values are concatenated."""

    def __init__(self, layer: MultiHead) -> None:
        self.layer = layer
        self.cache: list[Tensor] | None = None

    def __call__(self, x: Tensor) -> Tensor:
        """The output for one more position."""
        query, *more = _heads_of(self.layer, x)
        if self.cache is not None:
            more = [torch.cat(pair, 2) for pair in zip(self.cache, more, strict=True)]
        self.cache = key, value = more
        return _output_of(self.layer, F.scaled_dot_product_attention(query, key, value))


class _Buffered:
    """The same, with keys and values in buffers of the final length."""

    def __init__(self, layer: MultiHead, batch: int, steps: int) -> None:
        like = layer.output.weight
        self.layer, self.used = layer, 0
        self.buffers = [like.new_empty(batch, HEADS, steps, SIZE // HEADS) for _ in range(2)]

    def __call__(self, x: Tensor) -> Tensor:
        """The output for one more position."""
        query, *more = _heads_of(self.layer, x)
        for buffer, new in zip(self.buffers, more, strict=True):
            buffer[:, :, self.used : self.used + 1] = new
        self.used += 1
        key, value = (buffer[:, :, : self.used] for buffer in self.buffers)
        return _output_of(self.layer, F.scaled_dot_product_attention(query, key, value))


def _heads_of(layer: MultiHead, x: Tensor) -> list[Tensor]:
    """The heads of queries, keys and values, `[B, H, 1, d]`."""
    projected = F.linear(x, layer.project.weight, layer.project.bias)
    return [part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in projected.chunk(3, -1)]  # type: ignore[no-untyped-call]


def _output_of(layer: MultiHead, context: Tensor) -> Tensor:
    """The layer's output from the contexts of its heads."""
    output: Tensor = layer.output(context.transpose(1, 2).flatten(-2))
    return output


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
        return [_output_of(layer, attend(heads, memory.keys, memory.value))]

    return work


def _exact(layer: MultiHead, query: Tensor, memory: Memory) -> Sequence[Tensor]:
    """The formula in float64."""
    given = [x.cpu().double() for x in (query, memory.keys, memory.value)]
    return _work(_doubled(layer), given[0], Memory(given[1], given[2], None), _formula)()


def _doubled(layer: MultiHead) -> MultiHead:
    """The layer in float64 on the CPU."""
    double = MultiHead(Mechanism(ScaledDot), SIZE, HEADS, key_value_heads=layer.key_value_heads)
    double.load_state_dict(layer.state_dict())
    return double.double()


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
