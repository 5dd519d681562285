"""A recording names a replaced attention as before, so that both can be compared."""

import copy
import pickle

import pytest
import torch
from architectures import ARCHITECTURES
from fused_callers import Model, OneHead, inputs
from torch import Tensor, nn

from attention_lab import MultiheadAttention, recording, replace_attention, show
from attention_lab.attention import Additive, Entmax15, Mechanism, Recording, ScaledDot, Softmax
from attention_lab.attention.normalizers import Normalizer

ADDITIVE = Mechanism(Additive)


def _recorded(model: nn.Module, x: Tensor) -> Recording:
    with torch.no_grad(), recording(model) as weights:
        model(x)
    return weights


def test_in_a_model_with_torch_modules() -> None:
    layer = nn.TransformerEncoderLayer(32, 4, 48, 0.0, batch_first=True)
    model, x = nn.TransformerEncoder(layer, 2).eval(), torch.randn(1, 5, 32)
    before = _recorded(model, x)
    new = replace_attention(model, ADDITIVE)
    after = _recorded(model, x)
    assert list(before) == list(new) == list(after)
    again = replace_attention(model, ADDITIVE)
    assert list(again) == list(_recorded(pickle.loads(pickle.dumps(copy.deepcopy(model))), x))
    page = show({"before": before, "after": after}, list("abcde"))
    assert list(page.runs["before"]) == list(page.runs["after"])


def test_in_a_model_of_transformers() -> None:
    model = ARCHITECTURES["BERT"].build("sdpa", 0.0).eval()
    given = ARCHITECTURES["BERT"].inputs("padding")
    with torch.no_grad(), recording(model) as before:
        model(**given)
    replace_attention(model, ADDITIVE)
    with torch.no_grad(), recording(model) as after:
        model(**given)
    assert list(before) == list(after)
    with torch.no_grad(), recording(model, names=["encoder.layer.1.attention.self.mechanism"]) as last:
        model(**given)
    assert list(last) == list(after)[1:]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("normalizer", [Softmax, Entmax15])
def test_in_half_precision(normalizer: type[Normalizer], dtype: torch.dtype) -> None:
    """The weights are in single precision, as before: NumPy has no bfloat16."""
    architecture = ARCHITECTURES["BERT"]
    model, inputs = architecture.build("sdpa", 0.0).to(dtype), architecture.inputs("none")
    with torch.no_grad(), recording(model) as before:
        model(**inputs)
    replace_attention(model, Mechanism(ScaledDot, normalizer=normalizer))
    with torch.no_grad(), recording(model) as after:
        model(**inputs)
    assert {one.dtype for weights in (before, after) for one in weights.values()} == {torch.float32}


def test_in_a_module_that_is_the_model() -> None:
    x = torch.randn(2, 5, 32)
    layer = MultiheadAttention(32, 4, batch_first=True, mechanism=ADDITIVE)
    with recording(layer) as weights:
        layer(x, x, x)
    assert list(weights) == [""]


class _Two(OneHead):
    """Attends by torch's function, and once more by hand."""

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        return y + (y @ y.mT).softmax(-1) @ y


def test_another_attention_of_the_module_has_a_name_of_its_own() -> None:
    model, x = Model(_Two), inputs(3, 7)
    before = _recorded(model, x)
    replace_attention(model, ADDITIVE, x)
    after = _recorded(model, x)
    assert {name: one.shape for name, one in before.items()} == {
        name: one.shape for name, one in after.items()
    }
