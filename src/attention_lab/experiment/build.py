"""From a configuration to objects."""

import importlib
import re
from collections.abc import Callable, Mapping
from typing import Any, get_args

import pytorch_lightning as pl
from hydra.errors import InstantiationException
from hydra.utils import instantiate
from lightning_fabric.utilities.exceptions import MisconfigurationException
from omegaconf import DictConfig, OmegaConf
from pytorch_lightning.callbacks import EarlyStopping, LearningRateMonitor, ProgressBar

from attention_lab.attention import Mechanism
from attention_lab.data.codecs import Codec, codec_from_state
from attention_lab.data.datamodule import DataModule
from attention_lab.errors import LabError
from attention_lab.sizes import Sizes
from attention_lab.tasks import Task

Config = Mapping[str, Any]

REBUILT = ("model", "task", "scoring", "normalizer", "pooling", "window", "data")
"""The parts of a configuration that a checkpoint keeps, to be rebuilt from it alone."""


VERSION = 1
"""Of the recipe in a checkpoint."""


def to_plain(config: DictConfig) -> dict[str, Any]:
    """A configuration as dicts, lists, strings and numbers, every interpolation resolved."""
    plain = OmegaConf.to_container(config, resolve=True)
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


def make_data(config: Config, codec: Codec | None = None) -> DataModule:
    """The data module, read and split; with the codec of a trained model where one is given."""
    data: DataModule = _make(config["data"], without="kind")()
    if codec is not None:
        data.codec = codec
    data.setup()
    return data


def make_task(config: Config, sizes: Sizes, codec: Codec, *, trainable: bool) -> Task:
    """The task with its model, for data of these sizes; `trainable` with optimiser and schedule."""
    mechanism = Mechanism(
        *(
            instantiate(dict(config[part]), _convert_="all")
            for part in ("scoring", "normalizer", "pooling", "window")
        )
    )
    model = _make(config["model"], without="needs")(mechanism, sizes)
    recipe = {
        "version": VERSION,
        "config": {part: config[part] for part in REBUILT},
        "sizes": {"kind": type(sizes).__name__, **vars(sizes)},
        "codec": codec.state(),
    }
    parts = {part: instantiate(config[part]) for part in ("optimizer", "schedule") if trainable}
    task: Task = _make(config["task"])(model, codec, recipe=recipe, **parts)
    return task


def rebuild(recipe: Config, adapt: Callable[[Config], Config] | None = None) -> Task:
    """The task of a checkpoint, from its recipe with its configuration adapted, with fresh parameters.

    Raises:
        LabError: the recipe names anything but this project's own parts: a checkpoint can run no code.
    """
    try:
        if recipe["version"] != VERSION:
            raise LabError(
                f"the checkpoint's recipe has version {recipe['version']}, this program reads {VERSION}"
            )
        kept = {part: recipe["config"][part] for part in REBUILT}
    except (KeyError, TypeError):
        raise LabError("the checkpoint's recipe is incomplete") from None
    _check_own(kept)
    config = kept if adapt is None else adapt(kept)
    try:
        return make_task(config, _sizes(recipe["sizes"]), codec_from_state(recipe["codec"]), trainable=False)
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, InstantiationException) as error:
        raise LabError(f"the checkpoint's recipe cannot be read: {type(error).__name__}: {error}") from None


def _sizes(kept: Config) -> Sizes:
    fields = dict(kept)
    kinds = {kind.__name__: kind for kind in get_args(Sizes)}
    sizes: Sizes = kinds[fields.pop("kind")](**fields)
    return sizes


def make_trainer(config: Config, *more: pl.Callback) -> pl.Trainer:
    """Lightning's trainer with loggers, the callbacks configured and `more`."""
    options = dict(config["trainer"])
    try:
        loggers = [_make(node)() for node in config["logger"].values()]
        callbacks = [_make(node)() for node in config["callbacks"].values()]
        callbacks = [one for one in callbacks if _is_of_use(one, options, bool(loggers))]
        trainer: pl.Trainer = _make(options)(callbacks=[*more, *callbacks], logger=loggers or False)
    except (MisconfigurationException, ValueError, TypeError) as error:
        # Lightning's messages may run over lines; the first says what is wrong.
        raise LabError(f"trainer: {str(error).strip().splitlines()[0]}") from None
    _check_optimizer(config["optimizer"] or {}, trainer)
    return trainer


def _check_optimizer(optimizer: Config, trainer: pl.Trainer) -> None:
    """Refuse what the optimiser and the trainer cannot do together."""
    if trainer.world_size > 1 and optimizer.get("_target_", "").endswith("LBFGS"):
        raise LabError("optimizer=lbfgs works on one process: choose optimizer=adam, or trainer.devices=1")
    if optimizer.get("fused") and trainer.gradient_clip_val and trainer.precision == "16-mixed":
        raise LabError(
            "trainer.precision=16-mixed scales gradients, which a fused optimiser hides from clipping: "
            "set optimizer.fused=false, or choose bf16-mixed"
        )


def _is_of_use(callback: pl.Callback, options: Config, logged: bool) -> bool:
    """Leave out what Lightning refuses: a bar where none is wanted, a monitor with nowhere to log.

    Raises:
        LabError: early stopping is asked for, and there is no metric to watch.
    """
    if isinstance(callback, EarlyStopping) and callback.monitor is None:
        raise LabError("callbacks=early_stopping needs a metric: add monitor.metric=validation/mse, say")
    if isinstance(callback, LearningRateMonitor):
        return logged
    return bool(options.get("enable_progress_bar", True)) or not isinstance(callback, ProgressBar)


def _make(node: Config, without: str = "") -> Any:
    """The target of a node with its options, still to be called with what is no configuration."""
    options = {key: value for key, value in node.items() if key != without}
    return instantiate(options, _partial_=True, _convert_="all")


def _check_own(node: Any) -> None:
    """Refuse, anywhere in a node, what could run code or read more than the checkpoint.

    That is a `_target_` that is no class of this package, any other key that Hydra takes as an
    instruction, an interpolation, and any type but the plain ones (Hydra reads tuples as lists).
    """
    if type(node) is dict:
        for key, value in node.items():
            if type(key) is not str or (key.startswith("_") and key not in ("_target_", "_partial_")):
                raise LabError(f"the checkpoint has the option {key!r}, which is none: it is not loaded")
            if key == "_target_" and not _is_own_class(value):
                raise LabError(f"the checkpoint names {value!r}, no part of attention-lab: it is not loaded")
            _check_own(value)
    elif type(node) is list:
        for item in node:
            _check_own(item)
    elif not (node is None or type(node) in (bool, int, float) or (type(node) is str and "${" not in node)):
        raise LabError(f"the checkpoint has the value {str(node)[:60]!r}, not a plain one: it is not loaded")


def _is_own_class(target: object) -> bool:
    """Whether a target is a class that is defined in one of our rooms."""
    found = re.fullmatch(
        r"(attention_lab\.(?:attention|data|models|tasks)(?:\.\w+)*)\.([A-Z]\w*)", str(target)
    )
    if found is None:
        return False
    try:
        part = getattr(importlib.import_module(found[1]), found[2], None)
    except ModuleNotFoundError:
        return False
    return isinstance(part, type) and part.__module__.startswith("attention_lab.")
