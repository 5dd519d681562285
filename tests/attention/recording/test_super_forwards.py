"""Classes derived from torch's, whose `forward` calls that of torch's class."""

import copy
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attention_lab.attention import recording

B, L, D = 3, 7, 16
PADDING = torch.arange(L) >= torch.tensor([7, 5, 2])[:, None]
BASES = nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerEncoder
FORWARDS = [base.forward for base in BASES]


class Attention(nn.MultiheadAttention):
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return super().forward(*args, **kwargs)


class Layer(nn.TransformerEncoderLayer):
    """The same attention twice, in a class derived twice."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return super().forward(super().forward(*args, **kwargs), *args[1:], **kwargs)


class Derived(Layer):
    pass


class Encoder(nn.TransformerEncoder):
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return super().forward(*args, **kwargs)


def _layer(kind: type[nn.TransformerEncoderLayer] = nn.TransformerEncoderLayer) -> Any:
    return kind(D, 4, D, batch_first=True)


def _with_own_attention() -> Any:
    encoder = nn.TransformerEncoder(_layer(), 2)
    for layer in encoder.layers:
        layer.self_attn = Attention(D, 4, batch_first=True)  # type: ignore[assignment]
    return encoder


Call = Callable[[Tensor], Tensor]


def _call(model: Any) -> Call:
    if isinstance(model, nn.MultiheadAttention):
        return lambda x: model(x, x, x, key_padding_mask=PADDING, need_weights=False)[0]
    return lambda x: model(x, src_key_padding_mask=PADDING)


MODELS: dict[str, tuple[Callable[[], Any], dict[str, int]]] = {
    "attention": (lambda: Attention(D, 4, batch_first=True), {"": L}),
    "layer": (lambda: _layer(Layer), {"self_attn": 2 * L}),
    "derived layer": (lambda: _layer(Derived), {"self_attn": 2 * L}),
    "encoder": (lambda: Encoder(_layer(), 2), {"layers.0.self_attn": L, "layers.1.self_attn": L}),
    "layers": (
        lambda: nn.TransformerEncoder(_layer(Derived), 1, enable_nested_tensor=False),
        {"layers.0.self_attn": 2 * L},
    ),
    "attention in layers": (_with_own_attention, {"layers.0.self_attn": L, "layers.1.self_attn": L}),
}


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("gradient", [False, True])
def test_outputs_stay_the_same_to_the_last_bit(name: str, training: bool, gradient: bool) -> None:
    torch.manual_seed(0)
    make, queries = MODELS[name]
    model, x = make().train(training), torch.randn(B, L, D)
    call, outputs = _call(model), []
    with torch.set_grad_enabled(gradient):
        torch.manual_seed(1)
        outputs.append(call(x))
        torch.manual_seed(1)
        with recording(model) as weights:
            outputs.append(call(x))
    assert torch.equal(*outputs)
    assert {module: one.shape[2] for module, one in weights.items()} == queries
    real = ~PADDING[:, None, :, None].expand(B, 4, L, 1)
    for one in weights.values():
        sums = one[:, :, :L].sum(-1, keepdim=True)
        torch.testing.assert_close(sums[real], torch.ones_like(sums[real]))
    assert [base.forward for base in BASES] == FORWARDS


def test_recordings_of_several_objects_and_threads_do_not_mix() -> None:
    torch.manual_seed(0)
    models, x = [Attention(D, 4, batch_first=True).eval() for _ in range(2)], torch.randn(B, L, D)
    start = threading.Barrier(4)

    def record(model: nn.Module) -> Tensor:
        start.wait()
        with torch.no_grad(), recording(model) as weights:
            for _ in range(5):
                _call(model)(x)
        return weights[""]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(record, models * 2))
    assert all(one.shape[2] == 5 * L for one in found)
    assert torch.equal(found[0], found[2]) and not torch.equal(found[0], found[1])
    assert [base.forward for base in BASES] == FORWARDS


def test_other_objects_and_copies_are_not_recorded() -> None:
    first, other = (Attention(D, 4, batch_first=True) for _ in range(2))
    x = torch.randn(B, L, D)
    with recording(first) as weights, recording(other) as others:
        for one in (copy.deepcopy(first), pickle.loads(pickle.dumps(first)), other):
            _call(one)(x)
        with pytest.raises(TypeError):
            first()
    assert not weights and others[""].shape[2] == L
    assert [base.forward for base in BASES] == FORWARDS
