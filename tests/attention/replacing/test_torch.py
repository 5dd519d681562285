"""Any mechanism in place of torch's multi-head attention, inside any module."""

import subprocess
import sys

import pytest
import torch
from torch import Tensor, nn

from attention_lab import MultiheadAttention, recording, replace_attention
from attention_lab.attention import Additive, Gaussian, Mechanism, ScaledDot, Sparsemax

SAME = Mechanism(ScaledDot)


def _transformer() -> nn.Transformer:
    torch.manual_seed(0)
    return nn.Transformer(32, 4, 2, 2, 48, 0.0, batch_first=True)


@pytest.mark.parametrize("train", [False, True])
def test_the_scaled_dot_product_leaves_a_model_as_it_is(train: bool) -> None:
    model = _transformer().train(train)
    weights = {name: one.clone() for name, one in model.state_dict().items()}
    source, target = torch.randn(3, 9, 32), torch.randn(3, 5, 32)
    hidden = torch.arange(9) >= torch.tensor([[9], [6], [4]])
    expected = model(source, target, src_key_padding_mask=hidden, memory_key_padding_mask=hidden)
    new = replace_attention(model, SAME)
    assert len(new) == 6 and all(one.training == train for one in new.values())
    found = model(source, target, src_key_padding_mask=hidden, memory_key_padding_mask=hidden)
    torch.testing.assert_close(found, expected)
    assert model.state_dict().keys() == weights.keys()
    assert all(torch.equal(one, weights[name]) for name, one in model.state_dict().items())


def test_the_mechanism_is_that_of_from_torch() -> None:
    layer = nn.TransformerEncoderLayer(32, 4, 48, 0.0, batch_first=True)
    inner, x = layer.self_attn, torch.randn(2, 7, 32)
    mechanism = Mechanism(Gaussian, normalizer=Sparsemax)
    torch.manual_seed(1)
    expected = MultiheadAttention.from_torch(inner, mechanism)(x, x, x)
    torch.manual_seed(1)
    new = replace_attention(layer, mechanism)
    assert list(new) == ["self_attn"] and new["self_attn"] is layer.self_attn.attention
    torch.testing.assert_close(layer.self_attn(x, x, x), expected)


def test_a_module_that_is_held_twice_is_replaced_in_both_places() -> None:
    shared = nn.MultiheadAttention(32, 4, batch_first=True)
    model = nn.ModuleList([shared, nn.ModuleDict({"again": shared}), shared])
    assert list(replace_attention(model, SAME)) == ["0"]
    assert model[0] is model[1]["again"] is model[2]
    assert type(model[0]) is MultiheadAttention


def test_parameters_remain_the_same_objects() -> None:
    """Also those that two modules share; an optimiser that has them goes on training them."""
    model = nn.ModuleList(nn.MultiheadAttention(8, 2, kdim=4, vdim=6) for _ in range(2))
    model[1].q_proj_weight, model[1].out_proj.bias = model[0].q_proj_weight, model[0].out_proj.bias
    before = dict(model.named_parameters(remove_duplicate=False))
    replace_attention(model, Mechanism(ScaledDot))
    after = dict(model.named_parameters(remove_duplicate=False))
    assert {name: id(one) for name, one in before.items()} == {name: id(one) for name, one in after.items()}


def test_one_of_our_own_gets_another_mechanism() -> None:
    model = nn.Sequential(MultiheadAttention(32, 4, dropout=0.2, batch_first=True)).eval()
    before = model[0].in_proj_weight
    new = replace_attention(model, Mechanism(Additive))["0"]
    assert new is model[0].attention and isinstance(new.score, Additive) and new.dropout.p == 0.2
    assert model[0].in_proj_weight is before and not new.training
    x = torch.randn(2, 7, 32)
    with recording(model) as weights:
        model[0](x, x, x)
    assert list(weights) == ["0"]


def test_only_the_named_modules_are_replaced() -> None:
    model = _transformer()
    assert list(replace_attention(model, SAME, names=["decoder.layers.1"])) == [
        "decoder.layers.1.self_attn",
        "decoder.layers.1.multihead_attn",
    ]
    kinds = [type(one) for one in model.modules() if isinstance(one, nn.MultiheadAttention)]
    assert kinds.count(MultiheadAttention) == 2 and kinds.count(nn.MultiheadAttention) == 4


class _Other(nn.MultiheadAttention):
    def forward(self, *args: Tensor, **options: object) -> tuple[Tensor, None]:  # type: ignore[override]
        return args[0], None


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (
            nn.MultiheadAttention(32, 4),
            TypeError,
            "the model is the attention itself: use MultiheadAtten",
        ),
        (nn.Sequential(_Other(32, 4)), TypeError, "0 is a _Other, which may compute something else"),
        (
            nn.Linear(2, 2),
            ValueError,
            "Linear has no attention that can be replaced: it needs a torch.nn",
        ),
    ],
)
def test_what_cannot_be_replaced(model: nn.Module, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        replace_attention(model, SAME)


def test_an_error_leaves_all_modules_as_they_are() -> None:
    model = nn.ModuleList([nn.MultiheadAttention(32, 4), _Other(32, 4)])
    first = model[0]
    with pytest.raises(TypeError, match="_Other"):
        replace_attention(model, Mechanism(Additive))
    assert model[0] is first


@pytest.mark.long
def test_transformers_need_not_be_imported() -> None:
    program = (
        "import sys; from torch import nn; from attention_lab import replace_attention; "
        "from attention_lab.attention import Mechanism, ScaledDot; "
        "print(*replace_attention(nn.TransformerEncoderLayer(8, 2), Mechanism(ScaledDot))); "
        "assert 'transformers' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("self_attn\n", "")
