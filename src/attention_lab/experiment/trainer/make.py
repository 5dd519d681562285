"""Make Lightning's trainer, its loggers and its callbacks from a configuration."""

import os
from collections.abc import Mapping
from typing import TypeVar

import pytorch_lightning as pl
import torch
from lightning_fabric.utilities.exceptions import MisconfigurationException
from pytorch_lightning.callbacks import (
    EarlyStopping,
    LearningRateMonitor,
    ProgressBar,
    StochasticWeightAveraging,
    WeightAveraging,
)
from pytorch_lightning.loggers import Logger
from pytorch_lightning.strategies import DDPStrategy, StrategyRegistry

from attention_lab.callbacks.averaging import AveragedWeights
from attention_lab.callbacks.checkpoint_files import CheckpointFiles
from attention_lab.callbacks.randomness import RankRandomness
from attention_lab.commandline.overrides import as_text
from attention_lab.errors import LabError, first_line
from attention_lab.experiment.build import Config, bind
from attention_lab.experiment.target_errors import make_checked
from attention_lab.experiment.trainer.devices import check_devices, only_gpu_is_apples
from attention_lab.experiment.trainer.options import checked_trainer_options
from attention_lab.experiment.trainer.sharding import FullyShardedStrategy, check_sharding_precision
from attention_lab.experiment.trainer.started_processes import (
    check_started_processes,
    check_tasks_of_slurm,
)

T = TypeVar("T")
CALLBACK = (pl.Callback, "pytorch_lightning.Callback")
LOGGER = (Logger, "pytorch_lightning.loggers.Logger")


def make_trainer(config: Config, *more: pl.Callback) -> pl.Trainer:
    """Make Lightning's trainer with its loggers, the configured callbacks and `more`."""
    options = checked_trainer_options(config["trainer"])
    check_devices(options)
    check_tasks_of_slurm()
    if options.get("accelerator") == "auto" and only_gpu_is_apples():
        options["accelerator"] = "cpu"  # Apple's GPU has no float64, and takes one process
    _check_strategy(str(options.get("strategy")))
    if options.get("strategy") == "fsdp":
        check_sharding_precision(options.get("precision"))
        # Tensors made in inference mode could not be trained afterwards.
        options |= {"strategy": FullyShardedStrategy(), "inference_mode": False}
    _use_gradient_views()
    _use_kernels_for_any_shape()
    loggers = [_named(f"logger.{name}", node, *LOGGER) for name, node in config["logger"].items()]  # type: ignore[type-abstract]
    callbacks = [_named(f"callbacks.{name}", node, *CALLBACK) for name, node in config["callbacks"].items()]
    callbacks = [one for one in callbacks if _is_useful(one, options, bool(loggers))]
    folders = [str(node["dirpath"]) for node in config["callbacks"].values() if node.get("dirpath")]
    files = CheckpointFiles(str(options.get("default_root_dir") or "."), *folders)
    options["plugins"] = [*(options.get("plugins") or []), files]
    try:
        trainer: pl.Trainer = bind(options)(
            callbacks=[*more, RankRandomness(), *callbacks], logger=loggers or False
        )
    except (MisconfigurationException, ValueError, TypeError, ModuleNotFoundError) as error:
        if "unexpected keyword argument" in str(error):
            raise  # `blame_option` names the option
        # Lightning's messages may have several lines; the first says what is wrong.
        raise LabError(f"trainer: {first_line(error)}") from None
    _check_optimizer(config["optimizer"] or {}, trainer)
    _check_sharding(trainer)
    check_started_processes(trainer)
    return trainer


def _named(path: str, node: object, kind: type[T], name: str) -> T:
    """Make a callback or a logger. Raises LabError, naming it, if it has no class, or refuses its options."""
    if not (isinstance(node, Mapping) and "_target_" in node):
        raise LabError(f"{path}={as_text(node)}: write {path}._target_=..., with the path of a class")
    try:
        return make_checked(path, bind(node), kind, name)
    except (MisconfigurationException, ModuleNotFoundError) as error:
        raise LabError(f"{path}: {first_line(error)}") from None


def _check_strategy(strategy: str) -> None:
    """Raise LabError for a strategy of Lightning's that does not work with our callbacks and loggers."""
    if strategy.startswith(("ddp_fork", "ddp_notebook")):
        # A fork does not copy the threads that write the logs, and would wait for them forever.
        raise LabError(
            f"trainer.strategy={strategy} forks this process without its logging threads, and the copies "
            "would hang: choose trainer.strategy=ddp"
        )
    if strategy.startswith("ddp_spawn"):
        raise LabError(
            f"trainer.strategy={strategy} sends a copy of the trainer to each process, but its locks cannot "
            "be copied: choose trainer.strategy=ddp"
        )
    if strategy == "fsdp_cpu_offload":
        # Attention is observed outside training steps, where no device would have the whole model.
        raise LabError(
            "trainer.strategy=fsdp_cpu_offload never has the whole model on one device, which heatmaps "
            "need: choose trainer=fsdp"
        )


def _use_gradient_views() -> None:
    """Let gradients be views of DDP's communication buckets, which saves copying them."""
    for name in StrategyRegistry.available_strategies():
        if StrategyRegistry[name]["strategy"] is DDPStrategy:
            StrategyRegistry[name]["init_params"]["gradient_as_bucket_view"] = True


def _use_kernels_for_any_shape() -> None:
    """Try other kernels before cuDNN's half-precision attention, unless the user has set PyTorch's variable.

    PyTorch prefers cuDNN on Hopper and Blackwell GPUs, but it prepares a plan for every shape, which takes up
    to a second; batches and steps of decoding have hundreds of shapes. PyTorch reads the variable once.
    """
    os.environ.setdefault("TORCH_CUDNN_SDPA_DEPRIORITIZED", "1")


def _check_optimizer(optimizer: Config, trainer: pl.Trainer) -> None:
    """Raise LabError if the optimiser and the trainer do not work together."""
    if trainer.world_size > 1 and optimizer.get("_target_", "").endswith("LBFGS"):
        raise LabError("optimizer=lbfgs needs a single process: choose optimizer=adam, or trainer.devices=1")
    if optimizer.get("fused") and trainer.gradient_clip_val and trainer.precision == "16-mixed":
        raise LabError(
            "trainer.precision=16-mixed scales gradients, which a fused optimiser hides from clipping: "
            "set optimizer.fused=false, or choose bf16-mixed"
        )
    is_adam, eps = optimizer.get("_target_", "").endswith(("Adam", "AdamW")), optimizer.get("eps", 1e-8)
    vanishes = isinstance(eps, float) and eps < torch.finfo(torch.float16).tiny
    if is_adam and vanishes and trainer.precision == "16-true":
        raise LabError(
            "trainer.precision=16-true squares gradients in float16, where most become zero, and Adam then "
            "divides by optimizer.eps alone: add +optimizer.eps=1e-4, or choose bf16-true or optimizer=sgd"
        )


def _check_sharding(trainer: pl.Trainer) -> None:
    """Raise LabError if a callback needs all of a model that is sharded."""
    kinds = WeightAveraging, StochasticWeightAveraging
    averages = [one for one in trainer.callbacks if isinstance(one, kinds)]  # type: ignore[attr-defined]
    if averages and isinstance(trainer.strategy, FullyShardedStrategy):
        name = "callbacks=ema" if isinstance(averages[0], AveragedWeights) else type(averages[0]).__name__
        raise LabError(
            f"{name} averages all weights on every device, but trainer=fsdp divides them among the devices: "
            "choose trainer=ddp, or leave it out"
        )


def _is_useful(callback: pl.Callback, options: Config, logged: bool) -> bool:
    """False for a callback that Lightning would reject: an unwanted progress bar, a monitor without a logger.

    Raises:
        LabError: early stopping is requested without a metric to watch.
    """
    if isinstance(callback, EarlyStopping) and callback.monitor is None:
        raise LabError(
            "callbacks=early_stopping needs a metric: for example, add monitor.metric=validation/mse"
        )
    if isinstance(callback, LearningRateMonitor):
        return logged
    return bool(options.get("enable_progress_bar", True)) or not isinstance(callback, ProgressBar)
