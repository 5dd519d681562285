"""Recording models that are not ours: their own numbers unchanged, and the weights that their kernels use."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from written_elsewhere import ATTENDS, Attend, B, H, L, inputs, model_of

from attention_lab.attention import recording

every_attend = pytest.mark.parametrize("name", ATTENDS)


@every_attend
def test_weights_are_those_of_the_kernel(name: str) -> None:
    """In float64, the recorded weights times the values are the kernel's output."""
    model, x, kept = model_of(name).double().eval(), inputs().double(), {}
    for place in ("0", "2"):
        layer = model.get_submodule(place)
        attend = layer.attend

        def keeping(
            layer: nn.Module, q: Tensor, k: Tensor, v: Tensor, attend: Attend = attend, place: str = place
        ) -> Tensor:
            kept[place] = (v, attend(layer, q, k, v))
            return kept[place][1]

        layer.attend = keeping  # type: ignore[assignment]
    with recording(model) as weights:
        model(x)
    assert list(weights) == ["0", "2"]
    for place, (v, output) in kept.items():
        v = v[:, ::2].repeat_interleave(2, 1) if name == "grouped" else v
        assert torch.allclose(weights[place] @ v, output, rtol=0, atol=1e-12)
        assert weights[place].shape == weights.mask(place).shape == (B, H, L, L)
        real = weights.mask(place).any(-1, keepdim=True)  # -1e9 in all of a row masks nothing
        assert not (weights[place] * real)[~weights.mask(place)].any()


@every_attend
@pytest.mark.parametrize("mode", ["train", "eval", "no_grad", "inference", "autocast"])
def test_nothing_else_changes(name: str, mode: str) -> None:
    """Outputs, gradients and random numbers are the same to the bit."""
    model = model_of(name).train(mode == "train")
    gradients = mode in ("train", "eval")

    def run() -> list[Tensor]:
        torch.manual_seed(3)
        output = model(inputs())
        more = torch.autograd.grad(output.square().sum(), list(model.parameters())) if gradients else ()
        return [output, torch.rand(2), *more]

    contexts = {"no_grad": torch.no_grad, "inference": torch.inference_mode}
    contexts["autocast"] = lambda: torch.autocast("cpu", torch.bfloat16)
    with contexts.get(mode, torch.enable_grad)():
        plain = run()
        with recording(model, 1):
            recorded = run()
        with recording(model), recording(model, 0, heads=1):
            twice = run()
        after = run()
    for outputs in (recorded, twice, after):
        assert all(torch.equal(got, want) for got, want in zip(outputs, plain, strict=True))


@every_attend
def test_dropout_is_not_in_the_weights(name: str) -> None:
    model = model_of(name)
    with recording(model.eval(), names=["0"]) as plain:
        model(inputs())
    with (
        torch.set_grad_enabled(name != "by hand, in place"),
        recording(model.train(), names=["0"]) as dropped,
    ):
        model(inputs())
    assert list(plain) == list(dropped) == ["0"]
    assert torch.allclose(plain["0"], dropped["0"], atol=1e-6)


@every_attend
def test_examples_heads_and_queries(name: str) -> None:
    model, x = model_of(name).eval(), inputs()
    with recording(model) as everything:
        model(x)
    with recording(model, [2, 0], heads=slice(1, 3), queries=[-1, 2]) as some:
        model(x)
    for place in everything:
        want = [part[[2, 0], 1:3][:, :, [5, 2]] for part in (everything[place], everything.mask(place))]
        assert torch.allclose(some[place], want[0], atol=1e-7) and torch.equal(some.mask(place), want[1])


def test_what_there_is_not() -> None:
    model = model_of("fused")
    for options, message in [
        ({"examples": 3}, "no example 3 in a batch of 3"),
        ({"heads": [0, 4]}, "no head 4 among 4"),
        ({"queries": [6]}, "no query 6: an attention had at most 6"),
    ]:
        with pytest.raises(IndexError, match=message), recording(model, **options):  # type: ignore[arg-type]
            model(inputs())
    with pytest.raises(KeyError, match=r"1\.x"), recording(model, names=["1.x"]):
        pass
    empty = r"^recording\(names=\[\]\) selects nothing: leave names out to select all modules$"
    with pytest.raises(ValueError, match=empty), recording(model, names=[]):
        pass


def test_a_step_at_a_time_is_one_matrix() -> None:
    model = model_of("causal").eval()
    layer, x = model[0], inputs()
    with recording(layer) as together:
        layer(x)
    choice: list[dict[str, Any]] = [
        {},
        {"queries": [1, 4]},
        {"queries": slice(1, None, 2)},
        {"queries": slice(2, 4)},
    ]
    for options in choice:
        with recording(layer, **options) as steps:
            for step in range(L):
                layer.attend = lambda layer, q, k, v, step=step: F.scaled_dot_product_attention(
                    q[:, :, -1:], k, v
                )
                layer(x[:, : step + 1])
        rows = options.get("queries", slice(None))
        want = [part[:, :, rows, : steps[""].shape[-1]] for part in (together[""], together.mask(""))]
        assert torch.allclose(steps[""], want[0], atol=1e-6) and torch.equal(steps.mask(""), want[1])
