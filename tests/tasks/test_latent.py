"""The losses of hard attention: their expectation over all draws is the gradient of the bound."""

import math
from functools import partial
from itertools import product
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from toys import toy

from attention_lab.attention import Additive, Band, Exact, Hard, Mechanism, drawing
from attention_lab.data import Reverse
from attention_lab.data.reading.batches import TransductionBatch
from attention_lab.errors import LabError
from attention_lab.models import Seq2Seq
from attention_lab.special_symbols import EOS, PAD
from attention_lab.tasks import Transduction
from attention_lab.tasks.losses.latent import enumerated_loss, monte_carlo_loss

BATCH = TransductionBatch(
    source=torch.tensor([[4, 5, EOS], [6, EOS, PAD]]),
    source_lengths=torch.tensor([3, 2]),
    target=torch.tensor([[5, EOS], [4, EOS]]),
    target_lengths=torch.tensor([2, 2]),
    references=torch.zeros(2, 0, 1, dtype=torch.int64),
    alignment=torch.full([2, 2], -1),
)


def _likelihood(logits: Tensor, target: Tensor) -> Tensor:
    return logits.log_softmax(-1).gather(-1, target.unsqueeze(-1)).squeeze(-1)


def _model(pooling: Hard | Exact, **options: Any) -> Seq2Seq:
    model: Seq2Seq = toy(Seq2Seq, Mechanism(Additive, pooling=lambda: pooling), **{"dropout": 0.0, **options})
    return model.double()


def _all_draws(
    monkeypatch: pytest.MonkeyPatch, model: Seq2Seq, pooling: Hard, batch: TransductionBatch
) -> Any:
    """For each way to draw, step by step the same for the whole batch: p of both examples, and the loss."""
    steps, positions = batch.target.shape[1], batch.source.shape[1]
    for path in product(range(positions), repeat=steps):
        left = list(path)

        def forced(flat: Tensor, count: int, left: list[int] = left) -> Tensor:
            rows = len(flat) // len(batch.source)  # the queries of an example, that are drawn at once
            chosen = torch.tensor([left.pop(0) for _ in range(rows)])
            return chosen.repeat(len(batch.source)).unsqueeze(-1)

        monkeypatch.setattr(torch, "multinomial", forced)
        yield path, monte_carlo_loss(model, batch, pooling, _likelihood)[0]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "options",
    [{"wiring": "luong"}, {"wiring": "bahdanau"}, {"wiring": "luong", "input_feeding": True}],
    ids=lambda x: "-".join(map(str, x.values())),
)
@pytest.mark.parametrize("baseline", [False, True])
def test_monte_carlo_is_unbiased(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], baseline: bool
) -> None:
    """Averaged over all draws with their probabilities, the estimate is the gradient of the bound."""
    batch = TransductionBatch(*(field[:1] for field in BATCH))
    pooling = Hard(entropy=0.0, baseline=baseline, decay=0.999)
    model = _model(pooling, **options)
    parameters = list(model.parameters())
    pooling.average.fill_(-3.0)
    mean = [torch.zeros_like(x) for x in parameters]
    total, exact = 0.0, torch.zeros((), dtype=torch.float64)
    for path, loss in _all_draws(monkeypatch, model, pooling, batch):
        pooling.average.fill_(-3.0)
        gradients = torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True)
        probability, likelihood = _by_hand(model, batch, path)
        exact = exact + probability * likelihood
        total += probability.item()
        for sum_, gradient in zip(mean, gradients, strict=True):
            if gradient is not None:
                sum_ += probability.detach() * gradient
    assert total == pytest.approx(1)
    wanted = torch.autograd.grad(-exact / 2, parameters, allow_unused=True)
    for got, want in zip(mean, wanted, strict=True):
        torch.testing.assert_close(got, torch.zeros_like(got) if want is None else want, atol=1e-12, rtol=0)


@pytest.mark.long
@pytest.mark.parametrize("wiring", ["luong", "bahdanau"])
def test_a_leave_one_out_baseline_is_unbiased(monkeypatch: pytest.MonkeyPatch, wiring: str) -> None:
    """Averaged over all pairs of draws, the estimate is the gradient of the bound."""
    batch = TransductionBatch(*(field[:1] for field in BATCH))
    pooling = Hard(2, entropy=0.0, baseline="leave_one_out")
    model = _model(pooling, wiring=wiring)
    parameters = list(model.parameters())
    paths = list(product(range(3), repeat=2))
    terms = {path: _by_hand(model, batch, path) for path in paths}
    mean = [torch.zeros_like(x) for x in parameters]
    for pair in product(paths, repeat=2):
        left = torch.tensor(pair)  # [samples, steps]

        def forced(flat: Tensor, count: int) -> Tensor:
            nonlocal left
            drawn, left = left.tensor_split([len(flat) // 2], 1)
            return drawn.reshape(-1, 1)

        monkeypatch.setattr(torch, "multinomial", forced)
        loss, _ = monte_carlo_loss(model, batch, pooling, _likelihood)
        weight = (terms[pair[0]][0] * terms[pair[1]][0]).detach()
        for sum_, gradient in zip(
            mean, torch.autograd.grad(loss, parameters, allow_unused=True), strict=True
        ):
            if gradient is not None:
                sum_ += weight * gradient
    exact = sum(probability * likelihood for probability, likelihood in terms.values())
    wanted = torch.autograd.grad(-exact / 2, parameters, allow_unused=True)
    for got, want in zip(mean, wanted, strict=True):
        torch.testing.assert_close(got, torch.zeros_like(got) if want is None else want, atol=1e-12, rtol=0)


@pytest.mark.parametrize("wiring", ["luong", "bahdanau"])
@pytest.mark.parametrize("baseline", ["none", "moving_average", "leave_one_out"])
def test_the_loss_by_the_formula_with_padding(wiring: str, baseline: str) -> None:
    target, lengths = torch.tensor([[5, EOS, PAD], [4, 5, EOS]]), (2, 3)
    samples = 3 if baseline == "leave_one_out" else 1
    pooling = Hard(samples, weight=0.5, entropy=0.1, baseline=baseline)
    model = _model(pooling, wiring=wiring)
    pooling.average.fill_(-3.0)
    torch.manual_seed(1)
    with drawing(pooling) as draws:
        logits = model(BATCH.source, BATCH.source_lengths, target, samples)
    likelihood = _likelihood(logits, target.repeat_interleave(samples, 0)).view(2, samples, 3)
    log_p, entropy = (torch.cat(parts, -1).view(2, samples, 3) for parts in zip(*draws, strict=True))
    expected, total = torch.zeros(()), torch.zeros(())
    for row, length in enumerate(lengths):
        total = total + likelihood[row, :, :length].sum()
        for one, step in product(range(samples), range(length)):
            end = step + 1 if wiring == "luong" else length
            rewards = likelihood[row, :, step:end].sum(-1).detach()
            others = sum(rewards[other] for other in range(samples) if other != one)
            subtracted = {"none": 0.0, "moving_average": -3.0 * (end - step), "leave_one_out": others / 2}
            advantage = rewards[one] - subtracted[baseline]
            expected = expected - likelihood[row, one, step] - 0.5 * advantage * log_p[row, one, step]
            expected = expected - 0.1 * entropy[row, one, step]
    expected, mean = expected / (5 * samples), total / (5 * samples)
    torch.manual_seed(1)
    loss, reported = monte_carlo_loss(model, BATCH._replace(target=target), pooling, _likelihood)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(reported, -mean)
    moved = 0.1 * (mean.item() + 3.0) if baseline == "moving_average" else 0.0
    assert pooling.average.item() == pytest.approx(-3.0 + moved)
    gradients = (
        torch.autograd.grad(one, [*model.decoder.attention.parameters()]) for one in (loss, expected)
    )
    for found, wanted in zip(*gradients, strict=True):
        torch.testing.assert_close(found, wanted)


def _by_hand(model: Seq2Seq, batch: TransductionBatch, path: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """`p(s)` and `log p(y | s)` of one path, with the model stepped by hand."""
    weights: list[Tensor] = []
    attention = model.decoder.attention

    def watch(probability: Tensor) -> Tensor:
        chosen = path[len(weights)]
        weights.append(probability[0, 0, chosen])
        return torch.eye(probability.shape[-1], dtype=probability.dtype)[chosen].expand_as(probability)

    original = attention.pooling.choose
    attention.pooling.choose = watch  # type: ignore[method-assign]
    try:
        state = model.start(batch.source, batch.source_lengths)
        before, likelihood = torch.tensor([1]), torch.zeros((), dtype=torch.float64)
        for symbol in batch.target[0]:
            logits, state = model.step(before, state)
            likelihood = likelihood + logits.log_softmax(-1)[0, symbol]
            before = symbol[None]
    finally:
        attention.pooling.choose = original  # type: ignore[method-assign]
    return torch.stack(weights).prod(), likelihood


@pytest.mark.parametrize("objective", ["bound", "marginal"])
def test_enumeration_equals_the_sum_written_out(objective: str) -> None:
    pooling = Exact(objective)
    model = _model(pooling, wiring="luong")
    loss = enumerated_loss(model, BATCH, pooling, _likelihood)
    total = torch.zeros((), dtype=torch.float64)
    for row in range(2):
        one = TransductionBatch(*(field[row : row + 1] for field in BATCH))
        size = int(one.source_lengths)
        for step in range(2):
            terms = []
            for s in range(size):
                path = [0, 0]
                path[step] = s
                terms.append(_step_by_hand(model, one, step, s))
            p, likelihood = (torch.stack(x) for x in zip(*terms, strict=True))
            total = total + (
                (p * likelihood).sum() if objective == "bound" else (p * likelihood.exp()).sum().log()
            )
    torch.testing.assert_close(loss, -total / 4)
    got = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
    want = torch.autograd.grad(-total / 4, list(model.parameters()), allow_unused=True)
    for a, b in zip(got, want, strict=True):
        if a is not None and b is not None:
            torch.testing.assert_close(a, b, atol=1e-12, rtol=0)


def _step_by_hand(model: Seq2Seq, batch: TransductionBatch, step: int, s: int) -> tuple[Tensor, Tensor]:
    encoded = model.encoder(batch.source[:, : int(batch.source_lengths)], batch.source_lengths)
    decoder = model.decoder
    state = decoder.start(encoded)
    before = torch.cat([torch.tensor([[1]]), batch.target[:, :-1]], 1)
    hidden, _ = decoder.whole(  # type: ignore[misc]
        decoder.embedding(before), tuple(x[None] for x in state.layers[0])
    )
    p = attention_weights(decoder.attention, hidden[0, step], encoded.keys[0])
    readout = torch.tanh(decoder.readout(torch.cat([hidden[0, step], encoded.values[0, s]])))
    return p[s], F.log_softmax(decoder.output(readout), -1)[batch.target[0, step]]


def attention_weights(attention: Any, query: Tensor, keys: Tensor) -> Tensor:
    score = attention.score
    hidden = torch.tanh(query @ score.query_weight.T + keys @ score.key_weight.T)
    return torch.softmax((hidden @ score.value_weight).squeeze(-1), 0)


def test_the_average_moves_towards_the_likelihood() -> None:
    pooling = Hard(decay=0.5)
    model = _model(pooling, wiring="luong")
    torch.manual_seed(0)
    _, nll = monte_carlo_loss(model, BATCH, pooling, _likelihood)
    assert pooling.average.item() == pytest.approx(-nll.item() / 2)
    assert 0 < nll < 2 * math.log(7)


def test_more_samples_decode_each_example_more_often() -> None:
    model = _model(Hard(samples=3), wiring="luong")
    logits = model(BATCH.source, BATCH.source_lengths, BATCH.target, 3)
    assert logits.shape == (6, 2, 8)
    model.eval()
    again = model(BATCH.source, BATCH.source_lengths, BATCH.target, 3)
    once = model(BATCH.source, BATCH.source_lengths, BATCH.target)
    torch.testing.assert_close(again, once.repeat_interleave(3, 0))


def test_very_many_samples_need_a_smaller_batch() -> None:
    pooling = Hard(samples=140_000)
    with pytest.raises(LabError, match=r"pooling\.samples=140000 makes 280,000 sequences"):
        monte_carlo_loss(_model(pooling), BATCH, pooling, _likelihood)


@pytest.mark.parametrize("options", [{"wiring": "bahdanau"}, {"wiring": "luong", "input_feeding": True}])
def test_enumeration_needs_independent_steps(options: dict[str, Any]) -> None:
    """Reported when the task is built, before training."""
    data = Reverse(train_size=4, validation_size=4, test_size=4)
    data.setup()
    with pytest.raises(LabError, match=r"^pooling=exact .* model\.wiring=luong model\.input_feeding=false$"):
        Transduction(_model(Exact(), **options), data.codec)
    Transduction(_model(Exact(), wiring="luong"), data.codec)


@pytest.mark.parametrize("objective", ["bound", "marginal"])
def test_a_step_without_a_position_is_left_out(objective: str) -> None:
    """Targets beyond the window of a short source."""
    pooling = Exact(objective)
    mechanism = Mechanism(Additive, pooling=lambda: pooling, window=partial(Band, width=0))
    model = toy(Seq2Seq, mechanism, wiring="luong")
    long = torch.tensor([[5, 4, 6, EOS], [4, EOS, PAD, PAD]])
    batch = BATCH._replace(target=long, target_lengths=torch.tensor([4, 2]))
    loss = enumerated_loss(model, batch, pooling, _likelihood)
    assert loss.isfinite() and loss > 0
    loss.backward()
    assert all(x.grad is None or x.grad.isfinite().all() for x in model.parameters())
