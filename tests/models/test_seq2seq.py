"""Recurrent encoder-decoder: cells and layers against PyTorch's, wirings against formulas, padding."""

from functools import partial
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from toys import (
    LENGTHS,
    SOURCE,
    TARGET,
    check_causal,
    check_every_parameter_learns,
    check_steps,
    exact_toy,
    toy,
    train,
)

from attention_lab.attention import Additive, Band, Exact, Gaussian, Mechanism, Monotonic, recording
from attention_lab.errors import LabError
from attention_lab.models import Seq2Seq
from attention_lab.models.parts.recurrent_cells import LateLSTM, late_cell
from attention_lab.models.parts.recurrent_encoder import RecurrentEncoder, reversal
from attention_lab.models.specs import Seq2SeqSpec
from attention_lab.special_symbols import BOS, EOS, PAD

VARIANTS: list[dict[str, Any]] = [
    {"wiring": wiring, "cell": cell, "input_feeding": feeding, "layers": layers}
    for wiring, cell, feeding, layers in product(
        ("bahdanau", "luong"), ("lstm", "gru"), (False, True), (1, 2)
    )
]
variants = pytest.mark.parametrize("options", VARIANTS, ids=lambda x: "-".join(str(v) for v in x.values()))


AROUND_THE_STEP = partial(Band, width=2)


def _model(score: type | Mechanism = Additive, **options: Any) -> Seq2Seq:
    return exact_toy(Seq2Seq, score, **options)


def _same_with_gradients(ours: Tensor, theirs: Tensor, of: list[Tensor]) -> None:
    """Equal values, and equal gradients of a random function of them."""
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    upstream = torch.randn_like(ours)
    left = torch.autograd.grad(ours, of, upstream, retain_graph=True)
    right = torch.autograd.grad(theirs, of, upstream, retain_graph=True)
    for a, b in zip(left, right, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-10)


@pytest.mark.parametrize("early_size", [0, 4])
@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_late_cells_equal_those_of_pytorch(name: str, early_size: int) -> None:
    torch.manual_seed(0)
    cell = late_cell(name, early_size, 3, 5).double()
    for parameter in cell.parameters():
        nn.init.normal_(parameter)
    x, y, *state = (
        torch.randn(7, size, dtype=torch.float64, requires_grad=size > 0) for size in (early_size, 3, 5, 5)
    )
    share = [] if cell.early_weight is None else [cell.early_weight]
    weights = {"weight_ih": torch.cat([*share, cell.late_weight], 1), "weight_hh": cell.hidden_weight}
    if isinstance(cell, LateLSTM):  # theirs has the gates i, f, g, o, and a bias too many
        weights |= {"bias_ih": cell.bias, "bias_hh": torch.zeros_like(cell.bias)}
        order = torch.arange(20).view(4, 5)[[0, 1, 3, 2]].flatten()
        weights = {key: weight[order] for key, weight in weights.items()}
        theirs: nn.Module = nn.LSTMCell(early_size + 3, 5)
    else:
        state = state[:1]
        weights |= {"bias_ih": cell.bias, "bias_hh": cell.hidden_bias}
        theirs = nn.GRUCell(early_size + 3, 5)
    inputs = torch.cat([x, y], 1), tuple(state) if len(state) == 2 else state[0]
    expected = functional_call(theirs, weights, inputs)
    ours = torch.stack(cell(cell.early(x if early_size else None), y, tuple(state)))
    leaves = [*([x] if early_size else []), y, *state, *cell.parameters()]
    _same_with_gradients(ours, torch.stack(expected) if len(state) == 2 else expected[None], leaves)


def test_reversal_is_within_the_length_and_its_own_inverse() -> None:
    order = reversal(torch.tensor([4, 2, 1]), 4)
    assert order.tolist() == [[3, 2, 1, 0], [1, 0, 2, 3], [0, 1, 2, 3]]
    assert torch.equal(order.gather(1, order), torch.arange(4).expand(3, 4))


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_encoder_equals_packed_bidirectional_layers(cell: str) -> None:
    torch.manual_seed(0)
    spec = Seq2SeqSpec(embedding_size=5, hidden_size=6, layers=2, cell=cell, dropout=0.0)
    encoder = RecurrentEncoder(9, spec).double()
    kind = nn.LSTM if cell == "lstm" else nn.GRU
    theirs = kind(5, 3, 2, batch_first=True, bidirectional=True).double()
    for layer in range(2):
        for stack, suffix in ((encoder.layers.forwards, ""), (encoder.layers.backwards, "_reverse")):
            for name, parameter in stack[layer].named_parameters():
                getattr(theirs, name.replace("_l0", f"_l{layer}") + suffix).data = parameter.data
    annotations, values, _, finals, _ = encoder(SOURCE, LENGTHS)
    packed = pack_padded_sequence(encoder.embedding(SOURCE), LENGTHS, batch_first=True, enforce_sorted=False)
    output, state = theirs(packed)
    expected, _ = pad_packed_sequence(output, batch_first=True)
    last = state[0] if cell == "lstm" else state
    for row, length in enumerate(LENGTHS):
        torch.testing.assert_close(annotations[row, :length], expected[row, :length], rtol=0, atol=1e-12)
    own = encoder.embedding(SOURCE) @ encoder.residual.weight.T
    torch.testing.assert_close(values, annotations + own, rtol=0, atol=1e-12)
    for layer, final in enumerate(finals):
        pair = torch.cat([last[2 * layer], last[2 * layer + 1]], -1)
        torch.testing.assert_close(final, pair, rtol=0, atol=1e-12)


def _gru_parameters(decoder: Any) -> list[tuple[Tensor, ...]]:
    """Weights and biases from inputs and from states, of each layer, from whichever modules there are."""
    if decoder.whole is not None:
        flat = list(decoder.whole.parameters())
        return [(flat[i], flat[i + 2], flat[i + 1], flat[i + 3]) for i in range(0, len(flat), 4)]
    early = [[] if cell.early_weight is None else [cell.early_weight] for cell in decoder.cells]
    return [
        (torch.cat([*first, cell.late_weight], 1), cell.bias, cell.hidden_weight, cell.hidden_bias)
        for first, cell in zip(early, decoder.cells, strict=True)
    ]


def _gru(parameters: tuple[Tensor, ...], x: Tensor, h: Tensor) -> Tensor:
    """One GRU step, gate by gate."""
    weight, bias, hidden_weight, hidden_bias = parameters
    xr, xz, xn = (weight @ x + bias).chunk(3)
    hr, hz, hn = (hidden_weight @ h + hidden_bias).chunk(3)
    z = torch.sigmoid(xz + hz)
    return (1 - z) * torch.tanh(xn + torch.sigmoid(xr + hr) * hn) + z * h


def _by_the_formula(model: Seq2Seq, source: Tensor, target: Tensor, *, first: bool, feeding: bool) -> Tensor:
    """Logits `[T, V]` of one example, symbol by symbol and key by key, as the papers write it."""
    decoder: Any = model.decoder
    score = decoder.attention.score
    annotations, annotations_and_own, _, finals, _ = model.encoder(source[None], torch.tensor([len(source)]))
    keys, values = annotations[0], annotations_and_own[0]

    def attend(h: Tensor) -> Any:
        energy = [
            score.value_weight.squeeze() @ torch.tanh(score.query_weight @ h + score.key_weight @ k)
            for k in keys
        ]
        return sum(a * v for a, v in zip(torch.stack(energy).softmax(0), values, strict=True))

    states = [torch.tanh(bridge(final[0])) for bridge, final in zip(decoder.bridges, finals, strict=True)]
    readout, logits = torch.zeros(6, dtype=torch.float64), []
    for token in [BOS, *target[:-1].tolist()]:
        embedded = decoder.embedding.weight[token]
        x = torch.cat([embedded, *([readout] if feeding else []), *([attend(states[-1])] if first else [])])
        context = x[-6:]
        for layer, parameters in enumerate(_gru_parameters(decoder)):
            x = states[layer] = _gru(parameters, x, states[layer])
        if not first:
            context = attend(x)
        readout = decoder.readout(torch.cat([x, context]))
        if first:
            readout = readout + decoder.readout_embedding.weight @ embedded
        readout = torch.tanh(readout)
        logits.append(decoder.output(readout))
    return torch.stack(logits)


@pytest.mark.parametrize("wiring", ["bahdanau", "luong"])
@pytest.mark.parametrize("feeding", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("residual", [False, True])
def test_wirings_are_those_of_the_papers(wiring: str, feeding: bool, layers: int, residual: bool) -> None:
    model = _model(wiring=wiring, cell="gru", input_feeding=feeding, layers=layers, residual=residual)
    reference = _by_the_formula(model, SOURCE[0], TARGET[0], first=wiring == "bahdanau", feeding=feeding)
    _same_with_gradients(model(SOURCE, LENGTHS, TARGET)[0], reference, list(model.parameters()))


@variants
def test_stepwise_equals_parallel(options: dict[str, Any]) -> None:
    check_steps(_model(**options))
    check_steps(_model(Mechanism(Additive, window=AROUND_THE_STEP), **options))


@pytest.mark.parametrize("pooling", [Exact, Monotonic])
def test_enumerated_steps_equal_parallel_ones(pooling: type) -> None:
    check_steps(_model(Mechanism(Additive, window=AROUND_THE_STEP, pooling=pooling), wiring="luong"))


@variants
def test_selected_states_go_on_as_their_own(options: dict[str, Any]) -> None:
    model = _model(**options)
    index = torch.tensor([2, 0, 0, 1])
    _, state = model.step(torch.tensor([BOS, BOS, BOS]), model.start(SOURCE, LENGTHS))
    whole, _ = model.step(torch.tensor([4, 5, 6]), state)
    chosen, _ = model.step(torch.tensor([6, 4, 4, 5]), model.select(state, index))
    torch.testing.assert_close(chosen, whole[index], rtol=0, atol=1e-10)


@pytest.mark.sampled(2, rest="long")
@variants
def test_padding_and_company_change_nothing(options: dict[str, Any]) -> None:
    model = _model(**options)
    together = model(SOURCE, LENGTHS, TARGET)
    poisoned = SOURCE.masked_fill(SOURCE == PAD, 8)
    assert torch.equal(model(poisoned, LENGTHS, TARGET), together)
    for row, (source, target) in enumerate(zip((6, 3, 4), (5, 2, 4), strict=True)):
        alone = model(SOURCE[row : row + 1, :source], LENGTHS[row : row + 1], TARGET[row : row + 1, :target])[
            0
        ]
        shared = together[row, :target]
        _same_with_gradients(shared, alone, list(model.parameters()))


@pytest.mark.parametrize("wiring", ["bahdanau", "luong"])
@pytest.mark.parametrize("feeding", [False, True])
def test_logits_depend_only_on_earlier_symbols(wiring: str, feeding: bool) -> None:
    check_causal(_model(wiring=wiring, input_feeding=feeding))


@pytest.mark.sampled(2)
@variants
@pytest.mark.parametrize("score", [Additive, Gaussian])
def test_weights_of_every_step_are_recorded(options: dict[str, Any], score: type) -> None:
    model = _model(score, **options)
    with recording(model) as weights:
        recorded = model(SOURCE, LENGTHS, TARGET)
    torch.testing.assert_close(recorded, model(SOURCE, LENGTHS, TARGET), rtol=0, atol=1e-5)
    assert list(weights) == ["decoder.attention"]
    found = weights["decoder.attention"]
    assert found.shape == (3, 1, 5, 6)
    torch.testing.assert_close(found.sum(-1), torch.ones_like(found[..., 0]))
    assert (found[1, ..., 3:] == 0).all()


@variants
def test_every_parameter_learns(options: dict[str, Any]) -> None:
    check_every_parameter_learns(_model(dropout=0.1, attention_dropout=0.1, **options))


def test_dropout_of_everything_leaves_nothing_of_the_input() -> None:
    for options in VARIANTS:
        model = _model(dropout=1.0, **options).train()
        annotations, *_ = model.encoder(SOURCE, LENGTHS)
        assert torch.equal(annotations[:1], model.encoder(SOURCE.flip(1), LENGTHS)[0][:1])
        logits = model(SOURCE, LENGTHS, TARGET)
        assert torch.equal(logits, model.decoder.output.bias.expand_as(logits))


@pytest.mark.long
@pytest.mark.parametrize("wiring", ["bahdanau", "luong"])
def test_learns_to_copy(wiring: str) -> None:
    model = toy(Seq2Seq, Additive, embedding_size=16, hidden_size=32, wiring=wiring)
    source = torch.cat([torch.randint(4, 8, (32, 5)), torch.full((32, 1), EOS)], 1)
    assert train(model, lambda: (source, source), steps=60, lr=1e-2) < 0.1


def test_initial_values() -> None:
    cell = LateLSTM(4, 3, 5)
    for gate in cell.hidden_weight.detach().chunk(4):
        torch.testing.assert_close(gate @ gate.T, torch.eye(5))
    assert cell.bias.tolist() == [0.0] * 5 + [1.0] * 5 + [0.0] * 10
    layer: Any = _model(wiring="luong").decoder.whole
    assert (layer.bias_ih_l0 + layer.bias_hh_l0).tolist() == [0.0] * 6 + [1.0] * 6 + [0.0] * 12
    for gate in layer.weight_hh_l0.detach().chunk(4):
        torch.testing.assert_close(gate @ gate.T, torch.eye(6).double(), rtol=0, atol=1e-5)
    for gate in layer.weight_ih_l0.detach().chunk(4):  # uniform between the bounds of Xavier's, gate by gate
        assert 0.8 < float(gate.abs().max()) / (6 / sum(gate.shape)) ** 0.5 <= 1
    gru = late_cell("gru", 4, 3, 5)
    assert not any(parameter.any() for name, parameter in gru.named_parameters() if "bias" in name)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"hidden_size": 7}, "model.hidden_size must be even"),
        ({"layers": 0}, "model.layers must be at least 1"),
        ({"embedding_size": 0}, "model.embedding_size must be at least 1"),
        ({"cell": "rnn"}, "model.cell=rnn is unknown: choose lstm or gru"),
        ({"wiring": "vaswani"}, "model.wiring=vaswani is unknown: choose bahdanau or luong"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(options: dict[str, Any], named: str) -> None:
    with pytest.raises(LabError, match=named) as caught:
        toy(Seq2Seq, Additive, **options)
    assert "\n" not in str(caught.value)
