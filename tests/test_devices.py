"""Find what a GPU would reject without one, on tensors that have a device and a shape but no values.

PyTorch raises there where devices are mixed, and where a step would wait for a value to decide on. The device
is `lazy`, the only one besides the CPU that every build of PyTorch can take gradients on.
"""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from child_process import in_child_process
from mechanisms import SCORES, WINDOWS, Case
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torchmetrics import MeanMetric, Metric

from attention_lab import metrics, models
from attention_lab.attention import (
    Additive,
    Attention,
    Constant,
    Exact,
    Hard,
    Laplacian,
    Mechanism,
    Monotonic,
    ScaledDot,
    Soft,
    recording,
    windows,
)
from attention_lab.attention.fast.additive import scores
from attention_lab.attention.fast.additive.chunks import CHUNK
from attention_lab.callbacks import AveragedWeights, resumable
from attention_lab.data.reading.batches import (
    ClassificationBatch,
    LanguageBatch,
    NodeBatch,
    RegressionBatch,
    TransductionBatch,
)
from attention_lab.models.image2seq import PictureNorm
from attention_lab.sizes import (
    ClassificationSizes,
    GraphSizes,
    ImageSizes,
    LanguageSizes,
    RegressionSizes,
    TransductionSizes,
)
from attention_lab.tasks import Classification, LanguageModeling, Regression, Task, Transduction
from attention_lab.tasks.nodes import NodeClassification

GPU = "lazy:0"
B, S, T, N = 3, 5, 4, 6


@pytest.fixture
def _gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A GPU without values."""
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda _: False)  # there is none on this device
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())
    before = torch.__future__.get_overwrite_module_params_on_conversion()
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        with FakeTensorMode():
            yield
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(before)


def moved(module: nn.Module) -> Any:
    """The module with its parameters, buffers and metrics on the GPU, and nothing else."""
    return module._apply(lambda x: torch.empty(x.shape, dtype=x.dtype, device=GPU))


def whole(*shape: int) -> Tensor:
    return torch.ones(shape, dtype=torch.int64, device=GPU)


def real(*shape: int) -> Tensor:
    return torch.randn(shape, device=GPU)


def transduction(*source: int) -> TransductionBatch:
    read = real(*source) if len(source) == 3 else whole(*source)
    return TransductionBatch(read, whole(B), whole(B, T), whole(B), whole(B, 2, T), whole(B, T))


SYMBOLS, LABELS = TransductionSizes(9, 8), ClassificationSizes(4, S, vocabulary=9)
VECTORS = ClassificationSizes(4, S, features=6, grid=(1, S))
LAYERS = {"d_model": 8, "heads": 2, "layers": 1, "feedforward": 8, "attention_dropout": 0.1}
SMALL = {"embedding_size": 4, "hidden_size": 8, "dropout": 0.1}
LUONG = {**SMALL, "wiring": "luong"}
WRITING = partial(transduction, B, S)

Part = Callable[..., nn.Module]
TASKS: dict[str, tuple[type[Task], Part, object, Callable[[], object], dict[str, Any]]] = {
    "seq2seq": (Transduction, models.Seq2Seq, SYMBOLS, WRITING, {"r_drop": 1.0, **SMALL}),
    "fed": (Transduction, models.Seq2Seq, SYMBOLS, WRITING, {"input_feeding": True, "cell": "gru", **LUONG}),
    "hard": (Transduction, models.Seq2Seq, SYMBOLS, WRITING, {"pooling": partial(Hard, samples=2), **SMALL}),
    "exact": (Transduction, models.Seq2Seq, SYMBOLS, WRITING, {"pooling": Exact, **LUONG}),
    "monotonic": (
        Transduction,
        models.Seq2Seq,
        SYMBOLS,
        WRITING,
        {"pooling": Monotonic, **LUONG},
    ),
    "image2seq": (
        Transduction,
        models.ImageToSequence,
        ImageSizes(16, 8, 8),
        partial(transduction, B, 16, 16),
        {"channels": 2, **SMALL},
    ),
    **{
        f"transformer {name}": (
            Transduction,
            models.Transformer,
            SYMBOLS,
            WRITING,
            {"positions": name, **LAYERS},
        )
        for name in ("learned", "rotary", "alibi", "t5")
    },
    **{
        f"multihead {name}": (
            Classification,
            models.MultiHeadClassifier,
            sizes,
            lambda sizes=sizes: ClassificationBatch(
                real(B, S, 6) if sizes is VECTORS else whole(B, S), whole(B), whole(B)
            ),
            {"readout": name, "causal": sizes is VECTORS, "positions": "quadratic", **LAYERS},
        )
        for name, sizes in (
            ("mean", LABELS),
            ("max", VECTORS),
            ("linear", VECTORS),
            ("attention", LABELS),
            ("cls", VECTORS),
        )
    },
    "cnn": (
        Classification,
        models.ConvolutionalClassifier,
        LABELS,
        lambda: ClassificationBatch(whole(B, S), whole(B), whole(B)),
        {"d_model": 8, "layers": 1, "kernel_size": 3},
    ),
    "rnn": (
        Classification,
        models.RecurrentClassifier,
        LABELS,
        lambda: ClassificationBatch(whole(B, S), whole(B), whole(B)),
        {"d_model": 8, "layers": 1},
    ),
    "lm": (
        LanguageModeling,
        models.LanguageModel,
        LanguageSizes(9, S),
        lambda: LanguageBatch(whole(B, S), whole(B), whole(B), whole(B)),
        LAYERS,
    ),
    "graph": (
        NodeClassification,
        models.GraphClassifier,
        GraphSizes(4, 6),
        lambda: NodeBatch(real(N, 6), whole(2, 7), whole(B), whole(B)),
        LAYERS,
    ),
    "nw": (
        Regression,
        models.KernelRegression,
        RegressionSizes(2, 1, N),
        lambda: RegressionBatch(real(N, 2), real(N, 1), whole(N)),
        {"scoring": Laplacian},
    ),
}


@pytest.mark.long
@pytest.mark.sampled(2)
@pytest.mark.usefixtures("_gpu")
@pytest.mark.parametrize("name", TASKS)
@in_child_process
def test_a_step_of_training_mixes_no_devices_and_waits_for_no_value(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # How many columns are inside has to be known; this alone, once in a layer.
    monkeypatch.setattr(PictureNorm, "forward", lambda self, x, lengths: x)
    kind, model, sizes, batch, options = TASKS[name]
    with torch._subclasses.fake_tensor.unset_fake_temporarily():
        options = dict(options)
        score = ScaledDot if "heads" in options else options.pop("scoring", Additive)
        mechanism = Mechanism(score, pooling=options.pop("pooling", Soft))
        extra = {part: options.pop(part) for part in ("r_drop", "label_smoothing") if part in options}
        symbols = getattr(sizes, "target_vocabulary", getattr(sizes, "vocabulary", None))
        side = SimpleNamespace(vocabulary=range(symbols or 0))
        codec = SimpleNamespace(labels="abcd", target=side, tokenizer=side)
        task = kind(model(mechanism, sizes, **options), codec, **extra)
    monkeypatch.setattr(task, "log", lambda *_, **__: None)
    loss = moved(task).training_step(batch(), 0)
    assert (str(loss.device), loss.shape) == (GPU, ())
    loss.backward()
    found = [x.grad.device for x in task.parameters() if x.grad is not None]
    assert found and set(map(str, found)) == {GPU}


@pytest.mark.usefixtures("_gpu")
@pytest.mark.parametrize(
    ("score", "window"),
    # Gaussian looks at how far its keys reach
    [*((name, "Global") for name in SCORES if name != "Gaussian"), *(("Additive", name) for name in WINDOWS)],
)
def test_every_score_and_every_window(score: str, window: str) -> None:
    with torch._subclasses.fake_tensor.unset_fake_temporarily():
        attention = Case(score=score, window=window).make(2)
    attention, x = moved(attention), real(B, 2, T, 3)
    for mask, causal in ((None, True), (torch.ones(B, 1, 1, T, dtype=torch.bool, device=GPU), False)):
        with recording(attention) as seen:
            context = attention(x, attention.remember(x, mask=mask, causal=causal))
        assert context.device == seen[""].device == seen.mask("").device == x.device


@pytest.mark.usefixtures("_gpu")
@in_child_process
def test_what_is_long_goes_by_chunks_and_by_strips() -> None:
    assert CHUNK < 2 * 200 * 200 * 64
    for activation in scores.FORMS:
        a, b, w = (x.requires_grad_() for x in (real(2, 200, 64), real(2, 200, 64), real(64)))
        scores.additive_scores(a, b, w, activation).sum().backward()
        assert all(str(x.grad.device) == GPU for x in (a, b, w))
    with torch._subclasses.fake_tensor.unset_fake_temporarily():
        attention = Attention(Constant(8, 8), window=windows.Band(8, width=4))
    x = real(2, 300, 8).requires_grad_()
    moved(attention)(x, attention.remember(x)).sum().backward()
    assert str(x.grad.device) == GPU


@pytest.mark.usefixtures("_gpu")
@pytest.mark.parametrize(
    ("metric", "measured"),
    [
        (metrics.SequenceErrorRate, lambda: (metrics.nearest(whole(B, T), whole(B, 2, S)),)),
        (metrics.TokenErrorRate, lambda: (metrics.nearest(whole(B, T), whole(B, 2, S)),)),
        (metrics.AlignmentAccuracy, lambda: (real(B, 1, T, S), whole(B, T))),
        (metrics.AlignmentErrorRate, lambda: (real(B, 1, T, S), whole(B, T, 2))),
        (metrics.AlignmentMass, lambda: (real(B, 1, T, S), whole(B, T, 2))),
        (metrics.Monotonicity, lambda: (real(B, 1, T, S),)),
    ],
)
def test_every_metric_counts_where_it_is(metric: type[Metric], measured: Callable[[], Any]) -> None:
    with torch._subclasses.fake_tensor.unset_fake_temporarily():
        made = metric()
    moved(made).update(*measured())
    assert str(made.compute().device) == GPU


@pytest.mark.usefixtures("_gpu")
def test_what_is_left_on_the_cpu_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        windows, "distances", lambda queries, keys, *_, **__: torch.arange(keys).expand(queries, keys)
    )
    with pytest.raises(RuntimeError, match=r"same device|different devices"):
        test_every_score_and_every_window("Additive", "Band")


@pytest.mark.usefixtures("_gpu")
def test_a_saved_metric_can_be_read_where_there_is_no_such_gpu() -> None:
    with torch._subclasses.fake_tensor.unset_fake_temporarily():
        module = nn.ModuleDict({"measure": MeanMetric()})
    module["measure"]._update_count = 1
    saved = resumable._metric_states(moved(module))["measure"]
    assert saved.pop("_update_count") == 1
    assert [value.device.type for value in saved.values()] == ["cpu", "cpu"]


def test_averages_follow_the_weights_to_their_device() -> None:
    callback, module = (
        AveragedWeights(),
        Regression(
            models.KernelRegression(Mechanism(Laplacian), RegressionSizes(1, 1, 2)), SimpleNamespace()
        ),
    )
    callback.setup(SimpleNamespace(), module, "fit")  # before Lightning moves the model
    callback.on_fit_start(SimpleNamespace(), module.to("meta"))
    assert {x.device.type for x in callback._average_model.parameters()} == {"meta"}
