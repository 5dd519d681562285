"""Multi-head attention that reads a sequence step by step, and the memory that grows with it."""

import pytest
import torch
import torch.nn.functional as F

from attention_lab.attention import (
    Additive,
    Attention,
    Dot,
    Linear,
    Mechanism,
    MultiHead,
    ScaledDot,
    lengths_mask,
    recording,
)
from attention_lab.attention.positions import make_relative


@pytest.mark.parametrize("groups", [2, 1])
@pytest.mark.parametrize("score", [ScaledDot, Additive])
@pytest.mark.parametrize("positions", ["none", "rotary", "t5"])
@pytest.mark.parametrize("grad", [True, False])
def test_step_by_step_equals_all_at_once(score: type, positions: str, groups: int, grad: bool) -> None:
    torch.manual_seed(0)
    relative = make_relative(positions, 2, 4)
    module = MultiHead(Mechanism(score), 8, 2, relative=relative, key_value_heads=groups).double()
    x, memory, found = torch.randn(3, 7, 8, dtype=torch.float64), None, []
    with torch.set_grad_enabled(grad):
        for part in x.split([2, 1, 1, 3], 1):
            with recording(module) as weights:
                output, memory = module.step(part, memory)
            found.append(output)
            assert weights["attention"].shape == (3, 2, part.shape[1], memory.value.shape[-2])
        assert torch.allclose(torch.cat(found, 1), module(x, causal=True), atol=1e-12)


@pytest.mark.parametrize("groups", [2, 1])
@pytest.mark.parametrize("score", [ScaledDot, Additive, Linear])
@pytest.mark.parametrize("positions", ["none", "rotary", "alibi", "t5"])
def test_prompts_padded_on_the_left_continue_as_they_would_alone(
    score: type, positions: str, groups: int
) -> None:
    torch.manual_seed(0)
    relative = make_relative(positions, 2, 4)
    module = MultiHead(Mechanism(score), 8, 2, relative=relative, key_value_heads=groups).double()
    lengths, x = torch.tensor([4, 1, 3]), torch.randn(3, 7, 8, dtype=torch.float64)
    mask = lengths_mask(lengths, 4).flip(-1)
    x[:, :4][~mask.squeeze(1)] = 1e9  # poison
    output, memory = module.step(x[:, :4], None, mask)
    outputs = [output]
    for part, shown in ((x[:, 4:5], None), (x[:, 5:], torch.ones(3, 1, 2).bool())):
        output, memory = module.step(part, memory, shown)
        outputs.append(output)
    found = torch.cat(outputs, 1)
    whole = module(x, F.pad(mask, (0, 3), value=True), causal=True)
    assert torch.allclose(found[:, 4:], whole[:, 4:], atol=1e-12)
    if positions == "rotary" and score is not ScaledDot:
        return  # only in inner products does it depend on distances alone
    for row, length in enumerate(lengths.tolist()):
        alone = module(x[row : row + 1, 4 - length :], causal=True)
        assert torch.allclose(found[row, 4 - length :], alone[0], atol=1e-12)


def test_a_step_continues_only_what_a_step_has_read() -> None:
    module, x = MultiHead(Mechanism(ScaledDot), 8, 2), torch.randn(3, 4, 8)
    other = MultiHead(Mechanism(ScaledDot), 8, 4)
    for memory in (other.step(x)[1], module.remember(x), module.step(x[:1])[1]):
        with pytest.raises(ValueError, match="memories must agree"):
            module.step(x, memory)
    for mask in (torch.ones(3, 4).bool(), torch.ones(3, 4, 4).bool()):
        with pytest.raises(
            ValueError, match=r"a step takes a mask \[B, 1, n\] of its n positions, got \[3, 4"
        ):
            module.step(x, None, mask)
    with pytest.raises(ValueError, match="mask"):
        module.step(x, None, torch.ones(3, 1, 5).bool())


@pytest.mark.parametrize("masked", [(False, False), (True, False), (False, True), (True, True)])
def test_a_memory_is_extended_by_keys_values_and_mask(masked: tuple[bool, bool]) -> None:
    attention = Attention(Dot(2, 2))
    key, query = torch.randn(3, 5, 2), torch.randn(3, 4, 2)
    shown = [torch.tensor([[[True, False]]]), torch.tensor([[[True, True, False]]])]  # in all examples
    masks = [mask if given else torch.ones_like(mask) for mask, given in zip(shown, masked, strict=True)]
    whole = attention.remember(key, mask=torch.cat(masks, -1))
    first, second = (
        attention.remember(part, mask=mask if given else None)
        for part, mask, given in zip(key.split((2, 3), 1), shown, masked, strict=True)
    )
    assert torch.equal(attention(query, first.extend(second)), attention(query, whole))


def test_what_a_memory_is_not_extended_by() -> None:
    attention = Attention(Dot(2, 2))
    key = torch.randn(3, 5, 2)
    whole, masked = attention.remember(key), attention.remember(key, mask=torch.ones(5, 5).tril().bool())
    for one, other in ((masked, whole), (whole, masked)):
        with pytest.raises(ValueError, match="a row of its mask for each query cannot be extended"):
            one.extend(other)
    causal = attention.remember(key, causal=True)
    for one, other in ((causal, whole), (whole, causal)):
        with pytest.raises(ValueError, match="must agree in whether they are causal"):
            one.extend(other)
