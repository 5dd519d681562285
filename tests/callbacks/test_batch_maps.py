"""The attention of any module in the log, and the examples of the guide exactly as written there."""

import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.loggers import CSVLogger, Logger, TensorBoardLogger
from pytorch_lightning.strategies import SingleDeviceStrategy
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import Tensor, nn
from torch.utils.data import DataLoader
from torch.utils.tensorboard import SummaryWriter

from attention_lab.attention import recording
from attention_lab.callbacks import AttentionMaps
from attention_lab.callbacks.batch_observation import check_labels
from attention_lab.errors import LabError
from attention_lab.tensorboard_plugin import AttentionRecord, decode

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "any-model.md"
LABELS = [["a", "b", "c", "d"], ["e", "f"]]


class Module(pl.LightningModule):
    """A module of somebody else, with dropout and a part that stays in evaluation mode."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 8, 0.2, batch_first=True), 1)
        self.frozen = nn.Dropout(0.5).eval()

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        return self.encoder(self.frozen(x), src_key_padding_mask=padding)  # type: ignore[no-any-return]

    def training_step(self, batch: Any) -> Tensor:
        return self(*batch).square().mean()  # type: ignore[no-any-return]

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.1)


def _batch() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    padding = torch.tensor([[False] * 4, [False, False, True, True]])
    return {"x": torch.randn(2, 4, 8, generator=generator), "padding": padding}


def _fit(
    callbacks: list[pl.Callback],
    logger: Any,
    epochs: int = 2,
    prepare: Callable[[Module], None] = lambda _: None,
    **more: Any,
) -> Module:
    torch.manual_seed(0)
    module = Module()
    prepare(module)
    options: dict[str, Any] = {
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "accelerator": "cpu",
    } | more
    trainer = pl.Trainer(
        max_epochs=epochs, logger=logger, callbacks=callbacks, enable_model_summary=False, **options
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer.fit(module, DataLoader([tuple(_batch().values())] * 3, batch_size=None))  # type: ignore[arg-type]
    return module


def _events(folder: Path) -> dict[str, list[Any]]:
    sizes = {"tensors": 0, "images": 0}
    events = EventAccumulator(str(next(folder.rglob("events*")).parent), sizes).Reload()
    tags = events.Tags()
    found = {f"image {tag}": events.Images(tag) for tag in tags["images"]}
    return found | {tag: events.Tensors(tag) for tag in tags["tensors"]}


def _record(event: Any) -> AttentionRecord:
    return decode(*event.tensor_proto.string_val)


@pytest.mark.parametrize("form", ["mapping", "tuple", "forward"])
def test_records_and_pictures_of_a_batch(tmp_path: Path, form: str) -> None:
    batch: Any = _batch()
    forward = None
    if form == "tuple":
        batch = tuple(batch.values())
    elif form == "forward":
        forward = lambda module, batch: module.encoder(batch[0], src_key_padding_mask=batch[1])  # noqa: E731
        batch = [tuple(batch.values()), "more"]
        inner = forward
        forward = lambda module, batch: inner(module, batch[0])  # noqa: E731
    maps = AttentionMaps(batch, labels=LABELS, every_n_epochs=2, forward=forward)
    module = _fit([maps], TensorBoardLogger(str(tmp_path)), epochs=4)
    events = _events(tmp_path)
    place = "encoder layer 1 self_attn"
    assert {name for name in events if "example" in name} == {
        *(f"example {number}/{place}" for number in (1, 2)),
        *(f"image weights/example {number}/{place}" for number in (1, 2)),
    }
    assert [event.step for event in events[f"example 2/{place}"]] == [0, 6, 12]
    last = _record(events[f"example 2/{place}"][-1])
    assert list(last.queries) == list(last.keys) == ["e", "f"] and last.input == "e f"
    with torch.no_grad(), recording(module.eval()) as weights:
        module(**_batch())
    want = weights["encoder.layers.0.self_attn"][1, :, :2, :2]
    assert torch.allclose(torch.from_numpy(last.weights), want, atol=1e-4)


def test_the_logger_of_the_package_lightning(tmp_path: Path) -> None:
    """`import lightning as L` has the same classes as `import pytorch_lightning`, but of its own."""
    methods = {"log_metrics": lambda *_: None, "log_hyperparams": lambda *_: None}
    members = {"experiment": SummaryWriter(str(tmp_path)), "name": "", "version": "", **methods}
    _fit([AttentionMaps(_batch())], type("TensorBoardLogger", (Logger,), members)())
    assert "example 1/encoder layer 1 self_attn" in _events(tmp_path)


def test_two_batches_of_one_trainer_with_names(tmp_path: Path) -> None:
    """Lightning accepts several callbacks of one class, and saves their states, only under different keys."""
    hard = {"x": torch.ones(1, 3, 8)}
    callbacks: list[pl.Callback] = [AttentionMaps(_batch()), AttentionMaps(hard, name="hard case")]
    _fit(callbacks, TensorBoardLogger(str(tmp_path)), enable_checkpointing=True)
    place = "encoder layer 1 self_attn"
    names = {f"example 1/{place}", f"example 2/{place}", f"hard case 1/{place}"}
    events = _events(tmp_path)
    assert {name for name in events if place in name} == names | {f"image weights/{name}" for name in names}
    unlabelled = _record(events[f"hard case 1/{place}"][0])
    assert list(unlabelled.keys) == ["1", "2", "3"] and unlabelled.weights.shape == (2, 3, 3)
    assert _record(events[f"example 1/{place}"][0]).weights.shape == (2, 4, 4)
    states = torch.load(next(tmp_path.rglob("*.ckpt")), weights_only=True)["callbacks"]
    assert "AttentionMaps" in states  # as before there were names: older checkpoints resume
    assert states["AttentionMaps{'name': 'hard case'}"] == callbacks[1].state_dict()


@pytest.mark.parametrize("name", ["", " ", "a/b"])
def test_a_name_that_is_no_name_of_examples(name: str) -> None:
    with pytest.raises(LabError, match=r"name='.*' must be a word or words, without '/'"):
        AttentionMaps(_batch(), name=name)


def test_validation_examples_have_no_other_name() -> None:
    with pytest.raises(LabError, match="name='hard case' is for a batch of your own: give the batch as well"):
        AttentionMaps(name="hard case")


def test_training_is_the_same_without(tmp_path: Path) -> None:
    plain = _fit([], False)
    noisy = lambda module, batch: module(batch["x"] + torch.rand(8), batch["padding"])  # noqa: E731
    logged = _fit([AttentionMaps(_batch(), forward=noisy)], TensorBoardLogger(str(tmp_path)))
    for one, other in zip(plain.parameters(), logged.parameters(), strict=True):
        assert torch.equal(one, other)
    assert plain.frozen.training == logged.frozen.training


def test_a_compiled_module_runs_uncompiled_for_the_log(tmp_path: Path) -> None:
    def prepare(module: Module) -> None:
        module.encoder.compile(backend="eager")

    _fit([AttentionMaps(_batch())], TensorBoardLogger(str(tmp_path)), prepare=prepare)
    assert "example 1/encoder layer 1 self_attn" in _events(tmp_path)
    torch.compiler.reset()


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [("64-true", torch.float64), ("bf16-true", torch.bfloat16), ("bf16-mixed", torch.float32)],
)
def test_the_precision_is_that_of_training(tmp_path: Path, precision: Any, dtype: torch.dtype) -> None:
    seen = []

    def forward(module: nn.Module, batch: Any) -> None:
        seen.append((batch["x"].dtype, torch.zeros(1).dtype))
        module(**batch)

    _fit([AttentionMaps(_batch(), forward=forward)], TensorBoardLogger(str(tmp_path)), precision=precision)
    assert {*seen} == {(dtype, dtype)}
    assert "example 1/encoder layer 1 self_attn" in _events(tmp_path)


def test_a_trial_run_logs_nothing_but_checks_the_batch(tmp_path: Path) -> None:
    logger = TensorBoardLogger(str(tmp_path))
    _fit([AttentionMaps(_batch(), labels=LABELS)], logger, fast_dev_run=True)
    assert not list(tmp_path.iterdir())
    with pytest.raises(LabError, match="labels are given for 1 example,"):
        _fit([AttentionMaps(_batch(), labels=LABELS[:1])], logger, fast_dev_run=True)


def test_what_cannot_be_logged(tmp_path: Path) -> None:
    logger = TensorBoardLogger(str(tmp_path))
    for maps, given, message in [
        (AttentionMaps(_batch()), CSVLogger(str(tmp_path)), "TensorBoardLogger"),
        (AttentionMaps(_batch(), forward=lambda *_: None), logger, "no attention in the module ran"),
        (
            AttentionMaps(_batch(), labels=LABELS[:1]),
            logger,
            "labels are given for 1 example, but the batch has 2 or more",
        ),
        (
            AttentionMaps(_batch(), labels=[["a"], ["b", "c"]]),
            logger,
            "an example has 2 labels, but the attentions have 4 positions",
        ),
        (
            AttentionMaps(_batch(), labels=[[*"abcd"], [*"abcde"]]),
            logger,
            "an example has 5 labels, but the attentions have 4 positions",
        ),
        (
            AttentionMaps(_batch() | {"padding": _batch()["padding"].flip(1)}, labels=LABELS),
            logger,
            r"example 2 has 2 labels for 4 positions, but the first positions are padding \(masked\)",
        ),
    ]:
        with pytest.raises(LabError, match=message):
            _fit([maps], given)
    for labels in (LABELS[0], "abcd", ["a b c d", "e f"]):
        with pytest.raises(LabError, match="a list of texts for each example"):
            check_labels(labels)


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"every_n_epochs": 0}, "AttentionMaps: every_n_epochs must be at least 1, got 0"),
        ({"every_n_epochs": 1.5}, "AttentionMaps: every_n_epochs must be a whole number, not 1.5"),
        ({"every": 0}, "callbacks.attention_maps.every must be at least 1, got 0"),
        ({"examples": "4"}, "callbacks.attention_maps.examples must be a whole number, not '4'"),
        ({"forward": 3}, "AttentionMaps: forward must be a function of module and batch, not 3"),
        ({"name": 3}, "AttentionMaps: name=3 must be a word or words, without '/'"),
    ],
)
def test_options_that_cannot_be_used_are_named(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(LabError) as error:
        AttentionMaps(_batch(), **options)
    assert str(error.value) == complaint


def test_a_batch_that_does_not_fit_the_module_says_how_to_call_it(tmp_path: Path) -> None:
    batch = (*_batch().values(), torch.zeros(2))  # as a loader gives it, with the targets
    with pytest.raises(TypeError, match="positional arguments") as raised:
        _fit([AttentionMaps(batch)], TensorBoardLogger(str(tmp_path)))
    assert "a tuple; to call the module differently, pass forward=" in raised.value.__notes__[0]


def _blocks() -> Iterator[str]:
    yield from re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.long
def test_the_guide_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    five, some, uncompiled, classifier, encoder, vision = _blocks()
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 4, 8, batch_first=True), 2).eval()
    names: dict[str, Any] = {"model": nn.Sequential(model), "batch": torch.randn(2, 3, 8)}
    exec(five, names)
    assert "(2, 4, 3, 3)" in capsys.readouterr().out and len(five.strip().splitlines()) == 5
    names["model"] = nn.ModuleDict({"encoder": model})
    names["model"].forward = model.forward
    exec(some, names)
    assert [tuple(one.shape) for one in names["last"].values()] == [(1, 2, 1, 3)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names["model"] = torch.compile(model)
        exec(uncompiled, names)
        assert [tuple(one.shape) for one in names["weights"].values()] == [(2, 4, 3, 3)] * 2
        exec(classifier, names)
        exec(encoder, {})
        exec(vision, {})
    assert re.search(r'"shape": ?\[4, ?17, ?16\]', (tmp_path / "attention.html").read_text())
    events = _events(tmp_path / "logs" / "classifier")
    first = next(tag for tag in events if tag.startswith("example 2/"))
    assert [event.step for event in events[first]] == [0, 2, 4, 6]
    assert list(_record(events[first][0]).queries) == ["the", "film", "was", "not", "good"]
    events = _events(tmp_path / "logs" / "encoder")
    assert sorted(events) == [f"example 1/layers.{number}.self_attn" for number in range(2)]


def test_a_process_that_does_not_write_runs_the_batch(tmp_path: Path) -> None:
    """It may have parameters that the others need."""

    class Second(SingleDeviceStrategy):
        is_global_zero = False  # type: ignore[assignment]

    called = []
    maps = AttentionMaps(_batch(), forward=lambda module, batch: called.append(module(**batch)))
    _fit([maps], TensorBoardLogger(str(tmp_path)), strategy=Second(device="cpu"))
    assert len(called) == 3 and not any("example" in tag for tag in _events(tmp_path))
