"""Biases on the scores by the formula, and against those of `transformers`."""

import math

import pytest
import torch
from torch import Tensor

from attention_lab.attention import Constant, Mechanism, MultiHead, recording
from attention_lab.attention.positions import Alibi, Quadratic, Relative, T5Bias


@pytest.mark.parametrize("heads", [1, 3, 8])
def test_alibi_by_the_formula(heads: int) -> None:
    bias = Alibi(heads, 4).double().bias(3, 9, 2)
    for head in range(heads):
        for query in range(3):
            for key in range(9):
                expected = -(2 ** (-8 * (head + 1) / heads)) * abs(2 + query - key)
                assert bias[head, query, key].item() == pytest.approx(expected, rel=1e-6)
    if heads == 8:
        assert bias[0, 0, 1].item() == -0.5  # the paper's slopes for 8 heads: 1/2, 1/4, ..., 1/256
        assert bias[7, 0, 1].item() == -1 / 256


def _quadratic(
    positions: Quadratic, queries: int, keys: int, offset: int, grid: tuple[int, int] | None
) -> Tensor:
    """1911.03584, eq. 9, one number at a time."""
    alpha = positions.log_sharpness.exp()
    rows = []
    for head in range(len(alpha)):
        for query in range(offset, offset + queries):
            for key in range(keys):
                steps = [key - query]
                if grid is not None:
                    steps = [key // grid[1] - query // grid[1], key % grid[1] - query % grid[1]]
                product = sum(step * positions.centre[head, axis] for axis, step in enumerate(steps))
                rows.append(-alpha[head] * (sum(step**2 for step in steps) - 2 * product))
    return torch.stack(rows).view(len(alpha), queries, keys)


@pytest.mark.parametrize("grid", [None, (3, 4)])
def test_quadratic_by_the_formula_with_gradients(grid: tuple[int, int] | None) -> None:
    torch.manual_seed(0)
    positions = Quadratic(3, 8, grid=grid).double()
    torch.nn.init.normal_(positions.log_sharpness)
    weights = torch.randn(3, 5, 12, dtype=torch.float64)
    found, expected = positions.bias(5, 12, 4), _quadratic(positions, 5, 12, 4, grid)
    assert torch.allclose(found, expected, atol=1e-12)
    for mine, reference in zip(
        torch.autograd.grad((found * weights).sum(), list(positions.parameters())),
        torch.autograd.grad((expected * weights).sum(), list(positions.parameters())),
        strict=True,
    ):
        assert torch.allclose(mine, reference, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("autocast", [False, True])
def test_quadratic_in_half_precision_knows_distances_far_from_the_start(
    dtype: torch.dtype, autocast: bool
) -> None:
    torch.manual_seed(0)
    grid = (20, 30) if autocast else None
    positions = Quadratic(4, 8, grid=grid)
    positions = positions if autocast else positions.to(dtype)
    with torch.autocast("cpu", dtype, enabled=autocast):
        found = positions.bias(600, 600, 0)
    assert found.dtype == (torch.float32 if autocast else dtype)
    expected = Quadratic(4, 8, grid=grid).double()
    expected.load_state_dict(positions.state_dict())
    exact = expected.bias(600, 600, 0).softmax(-1)
    weights = found.double().softmax(-1)
    assert torch.allclose(weights, exact, atol=1e-5 if autocast else 0.02)
    values = torch.randn(600, 3).to(found)
    (found.softmax(-1) @ values).square().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in positions.parameters())


def test_quadratic_with_a_distant_centre_stays_finite_in_float16() -> None:
    positions = Quadratic(1, 8).half()
    torch.nn.init.constant_(positions.centre, 300.0)
    assert positions.bias(600, 600, 0).isfinite().all()


def test_a_sharp_quadratic_head_looks_at_one_pixel() -> None:
    attention = MultiHead(Mechanism(Constant), 4, 2, relative=Quadratic(2, 2, grid=(4, 5)))
    assert isinstance(attention.relative, Quadratic)
    with torch.no_grad():
        attention.relative.log_sharpness.fill_(math.log(50))
        attention.relative.centre.copy_(torch.tensor([[-1, 0], [1, 1]]))
    with recording(attention) as weights:
        attention(torch.randn(1, 20, 4))
    looked_at = weights["attention"][0].argmax(-1)
    inner = 1 * 5 + 2  # row 1, column 2
    assert looked_at[:, inner].tolist() == [2, 2 * 5 + 3]
    assert (weights["attention"][0, :, inner].amax(-1) > 0.999).all()


def test_a_head_for_each_pixel_of_the_kernel_is_a_convolution() -> None:
    """1911.03584, theorem 1, with as many channels into the convolution as a head has."""
    torch.manual_seed(0)
    channels, rows, columns = 3, 6, 7
    module = MultiHead(
        Mechanism(Constant), 9 * channels, 9, relative=Quadratic(9, channels, grid=(rows, columns))
    )
    module = module.double()
    kernel = torch.randn(9 * channels, channels, 3, 3, dtype=torch.float64)
    relative = module.relative
    assert isinstance(relative, Quadratic)
    with torch.no_grad():
        relative.log_sharpness.fill_(math.log(50))
        relative.centre.copy_(torch.tensor([[row, column] for row in (-1, 0, 1) for column in (-1, 0, 1)]))
        value = module.project.weight[-9 * channels :].zero_()
        for head in range(9):  # W^V takes the channels, W^O of each head is one pixel of the kernel
            value[head * channels : (head + 1) * channels, :channels] = torch.eye(channels)
        module.output.weight.copy_(kernel.permute(0, 2, 3, 1).flatten(1))
    picture = torch.randn(2, channels, rows, columns, dtype=torch.float64)
    x = torch.zeros(2, rows * columns, 9 * channels, dtype=torch.float64)
    x[..., :channels] = picture.flatten(2).mT
    found = module(x).mT.unflatten(-1, (rows, columns))[..., 1:-1, 1:-1]  # at the rim heads look back inside
    expected = torch.nn.functional.conv2d(picture, kernel, module.output.bias)
    assert torch.allclose(found, expected, atol=1e-10)


BUCKETS = {  # of keys before the query, by their distance
    False: {0: 0, 1: 1, 7: 7, 8: 8, 11: 8, 12: 9, 15: 9, 16: 10, 22: 10, 23: 11, 63: 13, 90: 14, 91: 15},
    True: {0: 0, 1: 1, 15: 15, 16: 16, 18: 16, 19: 17, 45: 23, 46: 24, 64: 26, 112: 30, 113: 31, 128: 31},
}
"""Ranges of 16 buckets start at 8 * 16^(i/8): 8, 11.3, 16, ...; of 32, at 16 * 8^(i/16): 16, 18.2, ..."""


@pytest.mark.parametrize("causal", [False, True])
def test_buckets_of_t5_by_hand(causal: bool) -> None:
    positions = T5Bias(3, 4, causal=causal)
    found = positions.bias(1, 1001, 1000)[:, 0]
    for distance, bucket in {**BUCKETS[causal], 1000: 31 if causal else 15}.items():
        assert torch.equal(found[:, 1000 - distance], positions.table[bucket])
    if not causal:
        found = positions.bias(1, 1001, 0)[:, 0]
        for distance, bucket in list(BUCKETS[causal].items())[1:]:
            assert torch.equal(found[:, distance], positions.table[16 + bucket])
        assert torch.equal(found[:, 1000], positions.table[31])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("offset", [0, 250])
def test_t5_is_that_of_transformers_with_gradients(causal: bool, offset: int) -> None:
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    config = t5.T5Config(num_heads=3, relative_attention_num_buckets=32, relative_attention_max_distance=128)
    config.is_decoder = causal
    theirs = t5.T5Attention(config, has_relative_attention_bias=True).double()
    ours = T5Bias(3, 4, causal=causal).double()
    with torch.no_grad():
        ours.table.copy_(theirs.relative_attention_bias.weight)
    queries, keys = 300 - offset, 300
    wanted = theirs.compute_bias(queries, keys, past_seen_tokens=offset)[0]
    found = ours.bias(queries, keys, offset)
    assert torch.equal(found, wanted)
    weights = torch.randn(3, queries, keys, dtype=torch.float64)
    (mine,) = torch.autograd.grad((found * weights).sum(), [ours.table])
    (reference,) = torch.autograd.grad((wanted * weights).sum(), [theirs.relative_attention_bias.weight])
    assert torch.allclose(mine, reference, atol=1e-10)


@pytest.mark.parametrize("kind", [Alibi, Quadratic, T5Bias])
def test_a_prefix_is_near_to_all_and_moves_nothing(kind: type[Relative]) -> None:
    torch.manual_seed(0)
    relative = kind(2, 4)
    plain = relative.bias(6, 6, 0)
    relative.prefix = 1
    bias = relative.bias(7, 7, 0)
    assert plain is not None
    assert bias is not None
    assert torch.equal(bias[:, 1:, 1:], plain)
    assert (bias[:, 0] == 0).all()
    assert (bias[:, :, 0] == 0).all()


def test_what_is_behind_a_grid_has_no_place_on_it() -> None:
    bias = Quadratic(2, 4, grid=(2, 3)).bias(7, 7, 0)
    assert (bias[:, 6] == 0).all()
    assert (bias[:, :, 6] == 0).all()
    assert (bias[:, :6, :6].abs().sum((1, 2)) > 0).all()
