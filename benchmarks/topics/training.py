"""Training as `python train.py` does it: Lightning around the step, heatmaps, and two processes."""

import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytorch_lightning as pl
import torch
from hydra import compose, initialize_config_dir
from lightning_fabric.plugins.io.torch_io import TorchCheckpointIO
from omegaconf import OmegaConf
from pytorch_lightning.callbacks.progress.tqdm_progress import Tqdm
from pytorch_lightning.utilities import move_data_to_device
from torch import Tensor

from attention_lab.callbacks import AttentionMaps, Progress
from attention_lab.experiment.build import make_data, make_task
from attention_lab.experiment.console import silence_libraries
from attention_lab.experiment.trainer.compiling import compile_callbacks
from attention_lab.experiment.trainer.cost import Cost
from attention_lab.experiment.trainer.make import make_trainer
from attention_lab.interruption.signals import DeferredSignals
from attention_lab.interruption.training_guard import TrainingGuard
from benchmarks.measuring.harness import Comparison, Method, Work
from benchmarks.measuring.own_process import Another, Job, OwnProcess
from benchmarks.peers.plain_step import plain_step

ROOT = Path(__file__).parents[2]
BATCH = 64
EPOCH = 469
"""Steps per epoch in the default configuration."""
FORKS = {
    "_target_": "pytorch_lightning.strategies.DDPStrategy",
    "start_method": "fork",
    "gradient_as_bucket_view": True,
}
"""As with `trainer.devices=2`, except for how processes start; no thread writes a log before that."""
TINY = (
    *("data=reverse", "data.train_size=8", "data.validation_size=4", "data.test_size=1", "data.batch_size=4"),
    *("data.max_length=4", "model.hidden_size=8", "model.embedding_size=4"),
)


def comparisons(device: torch.device, quick: bool) -> Iterator[Comparison]:
    """All with the default configuration and fewer words; an epoch is a piece of work."""
    silence_libraries()
    steps = 2 if quick else 40
    size = TINY if quick else (f"data.size={steps * BATCH}", "data.validation_size=500")
    options = (*size, "trainer.accelerator=cpu") if device.type == "cpu" else size
    resident = []
    if device.type == "cuda":
        name = "the same without feeding: batches on the GPU"
        resident.append(method(name, partial(_plain_loop, options, device, resident=True)))
    yield Comparison(
        f"The default configuration, {steps} steps of {BATCH} words",
        [
            method("a plain PyTorch loop", partial(_plain_loop, options, device)),
            *resident,
            method("Lightning without callbacks and logger", partial(fit, options, bare=True)),
            method("`python train.py`: all callbacks, log and bar", partial(fit, options)),
        ],
        note="Loader, model, loss, backward, clipping, optimiser and schedule; validation is left out. Each "
        "has a process of its own, which waits while the others work.",
        work=(float(steps), "steps/s"),
        children=True,
    )
    yield _heatmaps(options, steps)
    if device.type == "cpu" and not quick:  # it forks
        yield _processes()


def method(name: str, job: Job) -> Method:
    """A method whose work is done by another process, so that its error is unknown."""
    return Method(name, partial(OwnProcess, job), exact=False)


def _heatmaps(options: Sequence[str], steps: int) -> Comparison:
    share = steps / EPOCH
    return Comparison(
        f"What a validation draws, against {share:.1%} of an epoch of the default configuration",
        [
            method(f"{steps} steps of training", partial(fit, options)),
            method("heatmaps and measures of 4 examples", partial(_draw, options)),
        ],
        note=f"They take 2% of an epoch if they are {share / 0.02:.1f} times faster than that part of it.",
        children=True,
    )


def _processes() -> Comparison:
    steps = 240
    options = (f"data.size={steps * BATCH}", "data.validation_size=64", "trainer.accelerator=cpu")
    return Comparison(
        f"An epoch of {steps * BATCH:,} words in batches of {BATCH}, each process with one thread",
        [
            Method("one process", partial(forked, options, 1), exact=False),
            Method("`trainer.devices=2`", partial(forked, options, 2), exact=False),
        ],
        note="With two processes, each gets every other batch. Starting them, from a process that has "
        "imported everything, is included.",
        work=(float(steps * BATCH), "words/s"),
        children=True,
    )


def configured(options: Sequence[str], folder: Path) -> dict[str, Any]:
    """The configuration that `python train.py` would have with these options, as plain values."""
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        text = OmegaConf.to_yaml(compose("config", list(options)))
    known = OmegaConf.create(text.replace("${hydra:runtime.output_dir}", str(folder)))
    plain = OmegaConf.to_container(known, resolve=True)
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


class _InTurn(pl.Callback):
    """Pauses a fit at the start of every epoch until the next one is requested."""

    def __init__(self, another: Another) -> None:
        self.another = another

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Wait."""
        trainer.should_stop = not self.another()


class _Drawing(_InTurn):
    """Draws instead of training."""

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Wait and draw."""
        (maps,) = (one for one in trainer.callbacks if isinstance(one, AttentionMaps))  # type: ignore[attr-defined]
        while self.another():
            maps.on_validation_end(trainer, pl_module)
        trainer.should_stop = True


class _Bar(Progress):
    """The progress bar of a terminal, written to nowhere."""

    def init_train_tqdm(self) -> Tqdm:
        """A bar that is not disabled."""
        return Tqdm(desc=self.train_description, leave=False, file=io.StringIO(), smoothing=0)


def fit(options: Sequence[str], another: Another, *, bare: bool = False) -> None:
    """A job whose pieces of work are epochs."""
    _train(options, _InTurn(another), bare=bare)


def _draw(options: Sequence[str], another: Another) -> None:
    """A job whose pieces of work are the pictures of a validation."""
    _train(options, _Drawing(another))


def _train(options: Sequence[str], in_turn: _InTurn, *, bare: bool = False) -> None:
    """Train with our trainer, task and data as in a run, until it is stopped."""
    silence_libraries()
    # The timer for checkpoints would keep running while others work.
    parts = ["callbacks.resumable.every_seconds=null"]
    if bare:
        parts = ["callbacks=none", "logger=none", "trainer.enable_progress_bar=false"]
    endless = [*options, *parts, "trainer.max_epochs=1000", "+trainer.limit_val_batches=0"]
    with TemporaryDirectory() as name:
        folder = Path(name)
        plain = configured(endless, folder)
        data = make_data(plain)
        task = make_task(plain, data.sizes, data.codec, trainable=True)
        for one in ("progress_bar", "checkpoint"):  # the latter acts, and complains, only at validation
            plain["callbacks"].pop(one, None)
        more: list[pl.Callback] = [] if bare else [TrainingGuard(DeferredSignals(), folder), Cost(), _Bar()]
        more += compile_callbacks(plain["compile"])
        make_trainer(plain, *more, in_turn).fit(task, datamodule=data)


def _plain_loop(
    options: Sequence[str], device: torch.device, another: Another, *, resident: bool = False
) -> None:
    """A job whose pieces of work are epochs; if `resident`, on batches that are already on the device."""
    with TemporaryDirectory() as name:
        plain = configured(options, Path(name))
    data = make_data(plain)
    task = make_task(plain, data.sizes, data.codec, trainable=True)
    model = task.model.to(device)
    batches: Any = data.train_dataloader()
    if resident:
        batches = [move_data_to_device(batch, device) for batch in batches]
    assert task.make_optimizer is not None
    assert task.make_schedule is not None
    optimizer = task.make_optimizer(list(model.parameters()))
    schedule = task.make_schedule(optimizer, 1000 * len(batches))

    while another():
        model.train()
        for batch in batches:
            plain_step(model, batch, optimizer, plain["trainer"]["gradient_clip_val"], device)
            schedule.step()


def forked(options: Sequence[str], processes: int) -> Work:
    """A complete fit by processes that are forks of this one."""
    launched = (f"trainer.devices={processes}", "trainer.max_epochs=1")
    data = make_data(configured(options, ROOT))

    def fit() -> Sequence[Tensor]:
        with TemporaryDirectory() as name, _one_thread():
            folder = Path(name)
            plain = configured([*options, *launched, "+trainer.limit_val_batches=0"], folder)
            task = make_task(plain, data.sizes, data.codec, trainable=True)
            plain["trainer"]["enable_progress_bar"] = False
            plain["trainer"]["strategy"] = FORKS
            del plain["callbacks"]["checkpoint"]  # acts, and complains, only at validation
            trainer = make_trainer(plain, TrainingGuard(DeferredSignals(), folder), Cost())
            # Forks hand the weights back in a file elsewhere, which a run would refuse to write.
            trainer.strategy.checkpoint_io = TorchCheckpointIO()
            trainer.fit(task, datamodule=data)
        return ()

    return fit


@contextmanager
def _one_thread() -> Iterator[None]:
    """Use one CPU thread in this process and its forks; otherwise Lightning divides all among the forks."""
    threads, before = torch.get_num_threads(), os.environ.get("OMP_NUM_THREADS")
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        del os.environ["OMP_NUM_THREADS"]
        if before is not None:
            os.environ["OMP_NUM_THREADS"] = before
