"""Classifiers: encoders and readouts, padding, sizes that compare, one step of training."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hydra.utils import instantiate
from omegaconf import OmegaConf
from toys import LABELS, exact_toy, toy

from attention_lab.attention import Additive, Band, Gaussian, Mechanism, ScaledDot, recording
from attention_lab.attention.positions import POSITIONS
from attention_lab.errors import LabError
from attention_lab.models import (
    ConvolutionalClassifier,
    MultiHeadClassifier,
    RecurrentClassifier,
    SequenceClassifier,
)
from attention_lab.models.parts.readouts import ClassToken, Last
from attention_lab.sizes import ClassificationSizes
from attention_lab.special_symbols import PAD

CONF = Path(__file__).parents[2] / "conf"
PIXELS = replace(LABELS, grid=(2, 4))
KINDS = (MultiHeadClassifier, ConvolutionalClassifier, RecurrentClassifier)
READ = [(kind, readout) for kind in KINDS for readout in ("mean", "max", "last", "linear", "attention")]
READ.append((MultiHeadClassifier, "cls"))


def _classifier(
    kind: type[SequenceClassifier] = MultiHeadClassifier,
    score: type = ScaledDot,
    sizes: ClassificationSizes = LABELS,
    **options: object,
) -> SequenceClassifier:
    return exact_toy(kind, score, sizes, **options)


def _check_padding(model: SequenceClassifier) -> None:
    long, short = torch.randint(4, 12, (1, 8)), torch.randint(4, 12, (1, 3))
    padded = torch.cat([short, torch.full((1, 5), PAD)], 1)
    together = model(torch.cat([long, padded]), torch.tensor([8, 3]))
    assert torch.allclose(together[1:], model(short, torch.tensor([3])), atol=1e-10)
    poisoned = padded.clone()
    poisoned[:, 3:] = 11
    assert torch.allclose(together[1:], model(poisoned, torch.tensor([3])), atol=1e-10)
    assert not torch.allclose(together[0], together[1], atol=1e-6)


@pytest.mark.parametrize(("kind", "readout"), READ)
@pytest.mark.parametrize("score", [ScaledDot, Additive, Gaussian])
def test_padding_and_company_change_nothing(
    kind: type[SequenceClassifier], readout: str, score: type
) -> None:
    _check_padding(_classifier(kind, score, readout=readout))


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("readout", ["mean", "cls"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sizes", [LABELS, PIXELS])
def test_no_position_leaks_padding(
    positions: str, readout: str, causal: bool, sizes: ClassificationSizes
) -> None:
    _check_padding(_classifier(sizes=sizes, positions=positions, readout=readout, causal=causal))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("readout", ["mean", "max", "last", "linear", "attention"])
def test_vectors_with_anything_in_their_padding(kind: type[SequenceClassifier], readout: str) -> None:
    model = _classifier(kind, sizes=ClassificationSizes(classes=3, length=8, features=5), readout=readout)
    x, lengths = torch.randn(2, 8, 5, dtype=torch.float64), torch.tensor([8, 3])
    parameters = list(model.parameters())
    before = model(x, lengths)
    gradients = torch.autograd.grad(before[:, 0].sum(), parameters)
    x[1, 3:] = torch.nan
    after = model(x, lengths)
    assert torch.allclose(after, before, atol=1e-12)
    for one, other in zip(torch.autograd.grad(after[:, 0].sum(), parameters), gradients, strict=True):
        assert torch.allclose(one, other, atol=1e-10)


@pytest.mark.parametrize("kind", [ConvolutionalClassifier, RecurrentClassifier])
def test_every_model_reads_the_order(kind: type[SequenceClassifier]) -> None:
    model = _classifier(kind, readout="mean")
    x, length = torch.randint(4, 12, (1, 6)), torch.tensor([6])
    assert not torch.allclose(model(x, length), model(x.flip(1), length), atol=1e-6)


def test_a_convolution_sees_its_receptive_field_and_no_more() -> None:
    encoder = _classifier(ConvolutionalClassifier, kernel_size=5).encoder
    x = torch.randn(1, 20, 16, dtype=torch.float64)
    changed = x.clone()
    changed[0, 10] *= -1.0
    before, after = (encoder(each, torch.tensor([20]))[0] for each in (x, changed))
    seen = (before - after).abs().amax(-1) > 1e-12
    assert seen.nonzero().flatten().tolist() == list(range(6, 15))  # 1 + 2 (5 - 1) = 9 positions


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_the_recurrent_encoder_equals_torch(cell: str) -> None:
    encoder = _classifier(RecurrentClassifier, cell=cell).encoder
    kind = torch.nn.LSTM if cell == "lstm" else torch.nn.GRU
    theirs = kind(16, 8, 2, batch_first=True, bidirectional=True).double()
    ours = dict(encoder.layers.named_parameters())
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            weight, layer = name.removesuffix("_reverse").rsplit("_l", 1)
            stack = "backwards" if name.endswith("_reverse") else "forwards"
            parameter.copy_(ours[f"{stack}.{layer}.{weight}_l0"])
    x, lengths = torch.randn(3, 7, 16, dtype=torch.float64), torch.tensor([7, 4, 1])
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
    expected, _ = torch.nn.utils.rnn.pad_packed_sequence(theirs(packed)[0], batch_first=True)
    found = encoder(x, lengths)
    for row, length in enumerate(lengths.tolist()):
        assert torch.allclose(found[row, :length], expected[row, :length], atol=1e-12)


@pytest.mark.parametrize("causal", [False, True])
def test_cls_is_a_learned_vector_at_one_end_whose_representation_is_read(causal: bool) -> None:
    model = _classifier(readout="cls", causal=causal)
    x, lengths = torch.randint(4, 12, (2, 6)), torch.tensor([6, 4])
    logits = model(x, lengths)
    for row, length in enumerate(lengths):
        parts = [model.readout.token.unsqueeze(0), model.embedding(x[row, :length])]  # type: ignore[union-attr, operator]
        encoded = model.encoder(torch.cat(parts[::-1] if causal else parts).unsqueeze(0))  # type: ignore[arg-type]
        assert torch.allclose(logits[row], model.classify(encoded[0, -1 if causal else 0]), atol=1e-12)


def test_cls_reads_the_whole_sequence_under_a_causal_mask() -> None:
    model = _classifier(readout="cls", causal=True)
    x = torch.randint(4, 12, (1, 5))
    changed = x.clone()
    changed[0, 0] = 4 + (x[0, 0] - 3) % 8
    assert not torch.allclose(model(x, torch.tensor([5])), model(changed, torch.tensor([5])), atol=1e-6)
    assert model.position_labels(["a", "b"]) == ["a", "b", "[CLS]"]
    assert _classifier(readout="cls").position_labels(["a"]) == ["[CLS]", "a"]


def test_positions_are_those_of_the_data() -> None:
    learned = _classifier(positions="learned", readout="cls")
    assert len(learned.encoder.positions.table) == LABELS.length + 1  # type: ignore[union-attr, operator, arg-type]
    quadratic = _classifier(sizes=PIXELS, positions="quadratic")
    assert quadratic.encoder.layers[0].attention.relative.grid == PIXELS.grid  # type: ignore[union-attr, operator, index]


def test_cls_does_not_move_the_pixels_of_a_grid() -> None:
    with_cls, without = (_classifier(sizes=PIXELS, positions="quadratic", readout=r) for r in ("cls", "mean"))
    with_cls.load_state_dict({**with_cls.state_dict(), **without.encoder.state_dict(prefix="encoder.")})
    biases = [
        model.encoder.layers[0].attention.relative.bias(n, n, 0)  # type: ignore[union-attr, operator, index]
        for model, n in ((with_cls, 9), (without, 8))
    ]
    assert torch.equal(biases[0][:, 1:, 1:], biases[1])
    assert (biases[0][:, 0] == 0).all()


def test_pooling_without_layers_asks_no_query() -> None:
    x, lengths = torch.randint(4, 12, (3, 6)), torch.tensor([6, 4, 1])
    weight = torch.randn(8).double()
    pools = {
        "mean": lambda row: row.mean(0),
        "max": lambda row: row.amax(0),
        "linear": lambda row: sum(weight[i] * row[i] for i in range(len(row))),
    }
    for readout, pool in pools.items():
        model = _classifier(layers=0, positions="none", readout=readout)
        if readout == "linear":
            assert torch.equal(model.readout.weight.data, torch.full([8], 1 / 8, dtype=torch.float64))  # type: ignore[union-attr, operator]
            model.readout.weight.data = weight  # type: ignore[union-attr]
        with recording(model) as weights:
            logits = model(x, lengths)
        assert list(weights) == []
        rows = [model.encoder.norm(model.embedding(x[i, :n])) for i, n in enumerate((6, 4, 1))]  # type: ignore[operator]
        pooled = torch.stack([pool(row) for row in rows])
        assert torch.allclose(logits, model.classify(pooled), atol=1e-12)
    with pytest.raises(LabError, match=r"readout=linear has weights for 8 positions, but a sequence has 9"):
        _classifier(readout="linear")(torch.full([1, 9], 4), torch.tensor([9]))
    with pytest.raises(LabError, match=r"readout=cls sees the sequence through the layers"):
        _classifier(layers=0, readout="cls")


@pytest.mark.parametrize("kind", KINDS)
def test_the_readout_attends_to_every_position_whatever_the_window(kind: type[SequenceClassifier]) -> None:
    class Narrow(Band):
        def __init__(self, query_size: int, heads: int | None = None) -> None:
            super().__init__(query_size, heads, width=1)

    model = toy(kind, Mechanism(Additive, window=Narrow), readout="attention")
    with recording(model) as weights:
        model(torch.randint(4, 12, (3, 8)), torch.tensor([8, 5, 1]))
    seen = weights["readout.attention"]
    assert seen.shape == (3, 1, 1, 8)
    assert (seen[:, 0, 0] > 0).sum(-1).tolist() == [8, 5, 1]
    assert torch.allclose(seen.sum(-1), torch.ones(3, 1, 1))
    if kind is MultiHeadClassifier:
        assert ((weights["encoder.layers.0.attention.attention"] > 0).sum(-1) <= 3).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("score", [ScaledDot, Additive])
def test_a_step_of_training_reaches_every_parameter(kind: type[SequenceClassifier], score: type) -> None:
    model = _classifier(kind, score, readout="attention").train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, lengths, labels = torch.randint(4, 12, (6, 8)), torch.full((6,), 8), torch.arange(6) % 3
    losses = []
    for _ in range(2):
        model.eval()  # no dropout: the loss must fall
        loss = torch.nn.functional.cross_entropy(model(x, lengths), labels)
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[1] < losses[0]
    without = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.isfinite().all()]
    assert without == []


def test_the_models_as_configured_have_equally_many_parameters() -> None:
    digits = [
        ClassificationSizes(classes=10, length=8, features=8),
        ClassificationSizes(classes=10, length=64, vocabulary=21, grid=(8, 8)),
    ]
    for sizes in digits:
        counts = {}
        for name in ("multihead", "cnn", "rnn"):
            config = OmegaConf.load(CONF / "model" / f"{name}.yaml")
            scoring = next(one["override /scoring"] for one in config.defaults if "override /scoring" in one)
            mechanism = Mechanism(instantiate(OmegaConf.load(CONF / "scoring" / f"{scoring}.yaml")))
            options = {key: value for key, value in config.model.items() if key != "needs"}
            model = instantiate(options, _partial_=True)(mechanism, sizes)
            counts[name] = sum(parameter.numel() for parameter in model.parameters())
        assert max(counts.values()) <= 1.05 * min(counts.values()), counts


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (
            MultiHeadClassifier,
            {"readout": "sum"},
            "readout=sum is unknown: choose mean, max, last, linear, attention",
        ),
        (RecurrentClassifier, {"readout": "cls"}, "readout=cls needs model=multihead: choose mean, max"),
        (ConvolutionalClassifier, {"kernel_size": 4}, "kernel_size must be odd, .* got 4: choose 5"),
        (ConvolutionalClassifier, {"kernel_size": -1}, "kernel_size must be at least 1, got -1"),
        (ConvolutionalClassifier, {"d_model": 0}, "d_model must be at least 1, got 0"),
        (ConvolutionalClassifier, {"layers": 0}, "layers must be at least 1, got 0"),
        (MultiHeadClassifier, {"layers": -1}, "layers must be at least 0, got -1"),
        (RecurrentClassifier, {"d_model": 15}, "d_model must be even"),
        (RecurrentClassifier, {"cell": "rnn"}, "cell=rnn is unknown: choose lstm or gru"),
    ],
)
def test_wrong_options(kind: type[SequenceClassifier], options: dict[str, object], message: str) -> None:
    with pytest.raises(LabError, match=message):
        _classifier(kind, **options)  # type: ignore[arg-type]


def test_the_last_positions_are_read() -> None:
    x = torch.arange(12.0).view(2, 3, 2)
    lengths = torch.tensor([3, 1])
    assert Last(1)(x, lengths).tolist() == [[4.0, 5.0], [6.0, 7.0]]
    assert Last(2)(x, lengths).tolist() == [[[2.0, 3.0], [4.0, 5.0]], [[0.0, 0.0], [6.0, 7.0]]]
    assert Last(1)(x, torch.tensor([0, 2])).tolist() == [[0.0, 0.0], [8.0, 9.0]]


@pytest.mark.parametrize("name", ["mean", "max", "linear", "attention"])
def test_an_empty_sequence_is_read_as_zero(name: str) -> None:
    read = _classifier(readout=name).readout
    found = read(torch.randn(2, 3, 8, dtype=torch.float64), torch.tensor([3, 0]))
    assert found[0].ne(0).all() and found[1].eq(0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_each_of_the_last_positions_has_an_answer(kind: type[SequenceClassifier]) -> None:
    several = replace(LABELS, answers=3)
    model, one = _classifier(kind, sizes=several, readout="last"), _classifier(kind, readout="last")
    one.load_state_dict(model.state_dict())
    inputs, lengths = torch.randint(4, 12, (2, 8)), torch.tensor([8, 5])
    logits = model(inputs, lengths)
    assert logits.shape == (2, 3, 3)
    assert torch.allclose(logits[:, -1], one(inputs, lengths))
    alone = model(inputs[1:, :5], lengths[1:])
    assert torch.allclose(logits[1:], alone)
    readouts = ["mean", "max", "attention", *(["cls"] if kind is MultiHeadClassifier else [])]
    for readout in readouts:
        with pytest.raises(LabError, match=f"readout={readout} gives one answer, but the data asks for 3 "):
            _classifier(kind, sizes=several, readout=readout)


def test_only_a_class_token_at_the_start_is_a_prefix_without_a_place() -> None:
    assert [ClassToken(4, at_end=at_end).prefix for at_end in (False, True)] == [1, 0]
