"""Build data, task and trainer from a configuration, and rebuild a task from a checkpoint."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from inspect import get_annotations
from typing import Any, TypeVar, get_args

import pytorch_lightning as pl
import torch
from hydra.errors import InstantiationException
from hydra.utils import instantiate
from lightning_fabric.utilities.exceptions import MisconfigurationException
from omegaconf import DictConfig, OmegaConf
from pytorch_lightning.callbacks import EarlyStopping, LearningRateMonitor, ProgressBar
from pytorch_lightning.loggers import Logger
from pytorch_lightning.strategies import DDPStrategy, StrategyRegistry
from torch import nn

from attention_lab.attention import Mechanism
from attention_lab.callbacks.checkpoint_files import CheckpointFiles
from attention_lab.callbacks.randomness import RankRandomness
from attention_lab.commandline.overrides import as_text
from attention_lab.config_parts import MECHANISM, OPTIMIZATION, REBUILT
from attention_lab.console_text import counted, one_line
from attention_lab.data.plain_values import fits
from attention_lab.data.reading.codecs import Codec, RegressionCodec, codec_from_state
from attention_lab.data.reading.datamodule import DataModule
from attention_lab.errors import BAD_VALUE_ERRORS, LabError, first_line, named_line
from attention_lab.experiment.build_errors import checked_trainer_options
from attention_lab.experiment.target_errors import checked_kind, explain_target, make_checked, missing_target
from attention_lab.sizes import KIND_OF_DATA, Sizes
from attention_lab.tasks import Task
from attention_lab.untrusted.configuration import (
    check_targets,
    check_values,
    checked_packages,
    with_moved_classes,
)
from attention_lab.untrusted.run_parts import SUBPACKAGES, check_subpackage

Config = Mapping[str, Any]

T = TypeVar("T")
CALLBACK = (pl.Callback, "pytorch_lightning.Callback")
LOGGER = (Logger, "pytorch_lightning.loggers.Logger")
VERSION = 1
"""Version of the recipe in a checkpoint."""


def to_plain(config: DictConfig) -> dict[str, Any]:
    """A configuration as dicts, lists, strings and numbers, with all interpolations resolved."""
    plain = OmegaConf.to_container(config, resolve=True)
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


def make_data(config: Config, codec: Codec | None = None) -> DataModule:
    """Make the data module and run its `setup`, with the codec of a trained model if one is given."""
    made = _make(config["data"], without=KIND_OF_DATA["data"])()
    data = checked_kind("data", made, DataModule, "attention_lab.data.DataModule")  # type: ignore[type-abstract]
    if codec is not None:
        data.codec = codec
    data.setup()
    empty = [name for name, split in data.splits._asdict().items() if not len(split)]
    if codec is None and empty:
        raise LabError(f"the data has no examples for {empty[0]}")
    return data


def make_task(config: Config, sizes: Sizes, codec: Codec, *, trainable: bool) -> Task:
    """Make the task and its model for data of these sizes, with optimiser and schedule if `trainable`.

    Raises:
        LabError: a part that is made later lacks `_partial_: true`.
    """
    for part in (*MECHANISM, *(OPTIMIZATION if trainable else ())):
        node = config[part]
        if node and node.get("_partial_") is not True:
            raise LabError(
                f"{part}._target_={node.get('_target_')} needs _partial_: true beside it, in its file: "
                "the program passes it more arguments later"
            )
    mechanism = Mechanism(*(instantiate(dict(config[part]), _convert_="all") for part in MECHANISM))
    made = _make(config["model"], without=KIND_OF_DATA["model"])(mechanism, sizes)
    model = checked_kind("model", made, nn.Module, "torch.nn.Module")
    recipe = {
        "version": VERSION,
        "config": {part: config[part] for part in REBUILT},
        "sizes": {"kind": type(sizes).__name__, **vars(sizes)},
        "codec": codec.state(),
    }
    parts = {part: instantiate(config[part]) for part in OPTIMIZATION if trainable}
    task: Task = _make(config["task"])(model, codec, recipe=recipe, **parts)
    return task


def checkpoint_config(recipe: Any, allow: Sequence[str]) -> dict[str, Any]:
    """The configuration in the recipe of a checkpoint, checked so that it can run no foreign code.

    Args:
        recipe: the entry `RECIPE` of the checkpoint.
        allow: packages besides this one whose classes it may name.

    Raises:
        LabError: it is incomplete, or names classes other than this project's and those allowed.
    """
    if type(recipe) is not dict or type(recipe.get("config")) is not dict:
        raise LabError("the checkpoint's recipe is incomplete")
    if type(version := recipe.get("version")) is not int or version != VERSION:
        raise LabError(
            f"the checkpoint's recipe has version {one_line(version)[:40]}, "
            f"but this program reads version {VERSION}"
        )
    kept = {part: with_moved_classes(recipe["config"].get(part)) for part in REBUILT}
    if any(type(part) is not dict or "_target_" not in part for part in kept.values()):
        raise LabError("the checkpoint's recipe is incomplete")
    check_targets(kept, "the checkpoint", checked_packages(allow))
    check_values(kept, "the checkpoint")
    if not isinstance(kept["data"].get("kind"), str):
        raise LabError("the checkpoint's recipe is incomplete")
    for part in SUBPACKAGES:
        check_subpackage(kept[part], part, "the checkpoint")
    return kept


def rebuild(recipe: Config, config: Config) -> Task:
    """Make a checkpoint's task, with fresh parameters, from its recipe and its checked configuration.

    Raises:
        LabError: the recipe contradicts itself, or no task can be made from it.
    """
    try:
        sizes, codec = _sizes(recipe["sizes"]), codec_from_state(recipe["codec"])
        if isinstance(codec, RegressionCodec):  # it does not know the number of samples
            known: dict[str, Any] = {"features": len(codec.inputs), "targets": 1}
        else:
            known = vars(codec.sizes)
        later = {name: value for name, value in known.items() if name not in recipe["sizes"]}
        sizes = replace(sizes, **later)  # fields that older versions did not save
        if any(value is not None and vars(sizes)[name] != value for name, value in known.items()):
            raise LabError("the checkpoint's recipe cannot be read: its sizes do not match its data")
        task = make_task(config, sizes, codec, trainable=False)
        if not _predicts(type(task), codec):
            raise LabError(f"the checkpoint's task is {type(task).__name__}, which predicts no {codec.KIND}")
        return task
    except (*BAD_VALUE_ERRORS, MemoryError, InstantiationException) as error:
        if target := missing_target(error):
            raise LabError(f"the checkpoint needs {target}: {explain_target(error, target)}") from None
        cause = error.__cause__ if isinstance(error, InstantiationException) and error.__cause__ else error
        raise LabError(f"the checkpoint's recipe cannot be read: {named_line(cause)}") from None


def _predicts(task: type[Task], codec: Codec) -> bool:
    """Whether a task of this package is annotated with this kind of codec; True for a user's own task."""
    if not task.__module__.startswith("attention_lab."):
        return True
    kinds = (get_annotations(one).get("codec") for one in task.__mro__)
    return isinstance(codec, next(filter(None, kinds)))


def _sizes(kept: Config) -> Sizes:
    fields = dict(kept)
    kinds = {kind.__name__: kind for kind in get_args(Sizes)}
    sizes: Sizes = kinds[fields.pop("kind")](**fields)
    if not fits(sizes, type(sizes)):
        raise LabError("the checkpoint's recipe cannot be read: its sizes are not counts")
    return sizes


def make_trainer(config: Config, *more: pl.Callback) -> pl.Trainer:
    """Make Lightning's trainer with its loggers, the configured callbacks and `more`."""
    options = checked_trainer_options(config["trainer"])
    check_devices(options)
    if options.get("accelerator") == "auto" and _only_gpu_is_apples():
        options["accelerator"] = "cpu"  # Apple's has no float64, and takes one process
    if str(options.get("strategy")).startswith(("ddp_fork", "ddp_notebook")):
        # A fork does not copy the threads that write the logs, and would wait for them forever.
        raise LabError(
            f"trainer.strategy={options['strategy']} forks this process without its logging threads, and the "
            "copies would hang: choose trainer.strategy=ddp"
        )
    _use_gradient_views()
    _use_kernels_for_any_shape()
    loggers = [_named(f"logger.{name}", node, *LOGGER) for name, node in config["logger"].items()]  # type: ignore[type-abstract]
    callbacks = [_named(f"callbacks.{name}", node, *CALLBACK) for name, node in config["callbacks"].items()]
    callbacks = [one for one in callbacks if _is_useful(one, options, bool(loggers))]
    folders = [str(node["dirpath"]) for node in config["callbacks"].values() if node.get("dirpath")]
    files = CheckpointFiles(str(options.get("default_root_dir") or "."), *folders)
    options["plugins"] = [*(options.get("plugins") or []), files]
    try:
        trainer: pl.Trainer = _make(options)(
            callbacks=[*more, RankRandomness(), *callbacks], logger=loggers or False
        )
    except (MisconfigurationException, ValueError, TypeError, ModuleNotFoundError) as error:
        if "unexpected keyword argument" in str(error):
            raise  # `blame_option` names the option
        # Lightning's messages may have several lines; the first says what is wrong.
        raise LabError(f"trainer: {first_line(error)}") from None
    _check_optimizer(config["optimizer"] or {}, trainer)
    return trainer


def _named(path: str, node: object, kind: type[T], name: str) -> T:
    """Make a callback or a logger. Raises LabError, naming it, if it has no class, or refuses its options."""
    if not (isinstance(node, Mapping) and "_target_" in node):
        raise LabError(f"{path}={as_text(node)}: write {path}._target_=..., with the path of a class")
    try:
        return make_checked(path, _make(node), kind, name)
    except (MisconfigurationException, ModuleNotFoundError) as error:
        raise LabError(f"{path}: {first_line(error)}") from None


def check_devices(options: Mapping[str, Any]) -> None:
    """Raise LabError if the trainer needs a GPU, or more of them than this machine has.

    Each process needs its own GPU: NCCL does not connect two that share one, whatever the strategy.
    """
    accelerator, apple = options.get("accelerator", "auto"), _only_gpu_is_apples()
    if not torch.cuda.is_available():
        if "fsdp" in str(options.get("strategy")):
            raise LabError("trainer=fsdp needs GPUs, but this machine has none: choose trainer=ddp")
        if accelerator == "cuda" or (accelerator in ("gpu", "mps") and not apple):
            raise LabError(
                f"trainer.accelerator={accelerator} needs a GPU, but PyTorch finds none: "
                "choose trainer.accelerator=cpu"
            )
        if accelerator == "auto":  # then processes share the cores
            return
    devices, there = options.get("devices"), 1 if apple else torch.cuda.device_count()
    if accelerator not in ("auto", "gpu", "cuda", "mps"):
        return
    needed = devices
    if isinstance(devices, list) and all(isinstance(one, int) for one in devices):
        needed = max(devices, default=-1) + 1
    if isinstance(needed, int) and needed > there:
        raise LabError(
            f"trainer.devices={devices} needs {needed} GPUs, but this machine has {counted(there, 'GPU')}: "
            f"choose trainer.devices={there}, or trainer.accelerator=cpu to use its cores"
        )


def _only_gpu_is_apples() -> bool:
    return not torch.cuda.is_available() and torch.backends.mps.is_available()


def _use_gradient_views() -> None:
    """Let gradients be views of DDP's communication buckets, which saves copying them."""
    for name in StrategyRegistry.available_strategies():
        if StrategyRegistry[name]["strategy"] is DDPStrategy:
            StrategyRegistry[name]["init_params"]["gradient_as_bucket_view"] = True


def _use_kernels_for_any_shape() -> None:
    """Take cuDNN's attention in half precision from the front of PyTorch's order, unless the user has set it.

    PyTorch prefers it on Hopper and Blackwell GPUs, but it is prepared anew for every shape, which takes up
    to a second; batches and steps of decoding have hundreds of shapes. PyTorch reads the variable once.
    """
    os.environ.setdefault("TORCH_CUDNN_SDPA_DEPRIORITIZED", "1")


def _check_optimizer(optimizer: Config, trainer: pl.Trainer) -> None:
    """Raise LabError if the optimiser and the trainer do not work together."""
    if trainer.world_size > 1 and optimizer.get("_target_", "").endswith("LBFGS"):
        raise LabError("optimizer=lbfgs works on one process: choose optimizer=adam, or trainer.devices=1")
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


def _make(node: Config, without: str = "") -> Any:
    """A node's target with its options bound; the caller adds the other arguments."""
    options = {key: value for key, value in node.items() if key != without}
    return instantiate(options, _partial_=True, _convert_="all")
