"""The language model: causal, the same step by step as at once, whatever the mechanism and positions."""

import math

import pytest
import torch
from toys import LAYERS, exact_toy

from attention_lab.attention import (
    Additive,
    Concat,
    Constant,
    Cosine,
    Dot,
    Gaussian,
    General,
    Linear,
    Mechanism,
    ScaledDot,
    recording,
)
from attention_lab.attention.positions import POSITIONS
from attention_lab.attention.windows import Band, LocalP
from attention_lab.errors import LabError
from attention_lab.models import LanguageModel
from attention_lab.models.decoding.sampling import Continuable, Sampling, generate
from attention_lab.sizes import LanguageSizes
from attention_lab.special_symbols import BOS, PAD


def _model(mechanism: Mechanism | type = ScaledDot, **options: object) -> LanguageModel:
    return exact_toy(LanguageModel, mechanism, **options)


def _tokens(rows: int = 3, length: int = 8) -> torch.Tensor:
    tokens = torch.randint(4, 12, (rows, length), generator=torch.Generator().manual_seed(1))
    tokens[:, 0] = BOS
    return tokens


MECHANISMS = [
    *(
        Mechanism(score)
        for score in (ScaledDot, Dot, General, Additive, Concat, Cosine, Linear, Gaussian, Constant)
    ),
    Mechanism(ScaledDot, window=Band),
    Mechanism(Additive, window=LocalP),
]


def _check_steps(model: LanguageModel) -> None:
    """The rows of the parallel pass are those of a prompt and of one symbol after the other."""
    tokens = _tokens()
    parallel = model(tokens)
    for prompt in (1, 5):
        logits, state = model.start(tokens[:, :prompt])
        steps = [logits]
        for end in range(prompt, tokens.shape[1]):
            logits, state = model.step(tokens[:, end], state)
            steps.append(logits)
        assert torch.allclose(torch.stack(steps, 1), parallel[:, prompt - 1 :], atol=1e-10)
    lengths = torch.full((3,), 8)
    vectors = model.encoder(model.embedding(tokens), lengths)
    assert torch.allclose(vectors, model.encoder.step(model.embedding(tokens), None)[0], atol=1e-10)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_stepwise_equals_parallel_with_any_mechanism(mechanism: Mechanism) -> None:
    _check_steps(_model(mechanism))


@pytest.mark.parametrize("positions", POSITIONS)
def test_stepwise_equals_parallel_with_any_positions(positions: str) -> None:
    _check_steps(_model(positions=positions))


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_stepwise_equals_parallel_with_one_head_of_keys(mechanism: Mechanism) -> None:
    _check_steps(_model(mechanism, key_value_heads=1))


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_the_future_and_padding_change_nothing(mechanism: Mechanism) -> None:
    model, tokens = _model(mechanism), _tokens()
    changed = tokens.clone()
    changed[:, 5:] = PAD
    assert torch.allclose(model(tokens)[:, :5], model(changed)[:, :5], atol=1e-10)
    assert torch.allclose(model(tokens)[:, :5], model(tokens[:, :5]), atol=1e-10)
    assert torch.allclose(model(tokens)[1:2], model(tokens[1:2]), atol=1e-10)
    changed = tokens.clone()
    changed[:, 4] = 4 + (tokens[:, 4] - 3) % 8
    assert not torch.allclose(model(tokens)[:, 4:], model(changed)[:, 4:], atol=1e-6)


def test_the_states_of_chosen_sequences() -> None:
    model, tokens = _model(), _tokens()
    _, state = model.start(tokens[:, :4])
    index = torch.tensor([2, 0, 0])
    logits, _ = model.step(tokens[index, 4], model.select(state, index))
    assert torch.allclose(logits, model(tokens[index, :5])[:, -1], atol=1e-10)


def test_every_layer_and_head_is_recorded_under_the_causal_mask() -> None:
    model, tokens = _model(), _tokens()
    with recording(model) as weights:
        model(tokens)
    assert list(weights) == [f"encoder.layers.{i}.attention.attention" for i in range(2)]
    for name in weights:
        assert weights[name].shape == (3, 2, 8, 8)
        assert (weights[name].triu(1) == 0).all()
        assert torch.allclose(weights[name].sum(-1), torch.ones(3, 2, 8, dtype=torch.float64))
        assert weights.mask(name).equal(torch.ones(3, 2, 8, 8, dtype=torch.bool).tril())


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("tied", [True, False])
def test_logits_start_small_whether_tied_or_not(scaled: bool, tied: bool) -> None:
    torch.manual_seed(0)
    sizes = LanguageSizes(500, 10)
    options = {**LAYERS, "d_model": 64}
    model = LanguageModel(
        Mechanism(ScaledDot),
        sizes,
        **options,
        scale_embedding=scaled,
        tie_embedding=tied,  # type: ignore[arg-type]
    ).eval()
    logits = model(torch.randint(4, 500, (4, 9)))
    assert 0.3 < logits.std().item() < 2
    assert sum(p.numel() for p in model.parameters()) - _inner(model) == 500 * 64 * (1 if tied else 2)


def _inner(model: LanguageModel) -> int:
    return sum(p.numel() for p in model.encoder.parameters())


def test_tied_logits_are_products_with_the_table() -> None:
    model, tokens = _model(scale_embedding=False), _tokens()
    vectors, _ = model.encoder.step(model.embedding(tokens), None)
    assert torch.allclose(model(tokens), vectors @ model.embedding.weight.T / math.sqrt(8))


def test_a_mean_of_the_past_is_what_a_constant_score_gives() -> None:
    """One layer by hand: equal weights on all symbols so far, and nothing of the later ones."""
    model, tokens = _model(Mechanism(Constant), layers=1, heads=1, positions="none"), _tokens(1, 5)
    layer = model.encoder.layers[0]
    x = model.embedding(tokens)
    _, _, values = layer.attention.project(layer.attention_norm(x)).chunk(3, -1)
    means = torch.stack([values[:, : t + 1].mean(1) for t in range(5)], 1)
    x = x + layer.attention.output(means)
    network = layer.feedforward
    x = x + network.contract(torch.relu(network.expand(layer.feedforward_norm(x))))
    expected = model.encoder.norm(x) @ model.embedding.weight.T
    assert torch.allclose(model(tokens), expected)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "t5"])
def test_generation_with_the_cache_is_that_of_reading_all_anew(positions: str) -> None:
    model = _model(positions=positions)
    assert isinstance(model, Continuable)
    if positions == "learned":
        assert len(model.encoder.positions.table) == model.length  # type: ignore[union-attr, arg-type]
    prompts, lengths = _tokens(3, 4), torch.tensor([4, 2, 1])
    uniform = torch.rand(3, 20, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    outputs = generate(model, prompts, lengths, uniform, Sampling(temperature=2.0))

    class Anew:
        length = model.length

        def start(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return model(tokens)[:, -1], tokens

        def step(self, tokens: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.start(torch.cat([state, tokens.unsqueeze(-1)], 1))

    assert outputs.equal(generate(Anew(), prompts, lengths, uniform, Sampling(temperature=2.0)))


def test_sizes_below_one_are_refused() -> None:
    with pytest.raises(LabError, match=r"model\.layers must be at least 1, got 0"):
        _model(layers=0)
