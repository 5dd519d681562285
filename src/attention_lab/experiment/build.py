"""Build data and task from a configuration, and rebuild a task from a checkpoint."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from inspect import get_annotations
from typing import Any, get_args

from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from torch import nn

from attention_lab.attention import Mechanism
from attention_lab.config_parts import MECHANISM, OPTIMIZATION, REBUILT
from attention_lab.console_text import one_line
from attention_lab.data.plain_values import fits
from attention_lab.data.reading.codecs import Codec, RegressionCodec, codec_from_state
from attention_lab.data.reading.datamodule import DataModule
from attention_lab.errors import BAD_VALUE_ERRORS, LabError, named_line
from attention_lab.experiment.target_errors import checked_kind, explain_target, missing_target
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

VERSION = 1
"""Version of the recipe in a checkpoint."""


def to_plain(config: DictConfig) -> dict[str, Any]:
    """A configuration as dicts, lists, strings and numbers, with all interpolations resolved."""
    plain = OmegaConf.to_container(config, resolve=True)
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


def make_data(config: Config, codec: Codec | None = None) -> DataModule:
    """Make the data module and run its `setup`, with the codec of a trained model if one is given."""
    made = bind(config["data"], without=KIND_OF_DATA["data"])()
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
        LabError: a part that is made later lacks `_partial_: true`, or the task, which may be user-defined,
            is not a `Task` or does not pass on its arguments.
    """
    for part in (*MECHANISM, *(OPTIMIZATION if trainable else ())):
        node = config[part]
        if node and node.get("_partial_") is not True:
            raise LabError(
                f"{part}._target_={node.get('_target_')} needs _partial_: true next to it in its file, "
                "because the program passes it more arguments later"
            )
    mechanism = Mechanism(*(instantiate(dict(config[part]), _convert_="all") for part in MECHANISM))
    made = bind(config["model"], without=KIND_OF_DATA["model"])(mechanism, sizes)
    model = checked_kind("model", made, nn.Module, "torch.nn.Module")
    recipe = {
        "version": VERSION,
        "config": {part: config[part] for part in REBUILT},
        "sizes": {"kind": type(sizes).__name__, **vars(sizes)},
        "codec": codec.state(),
    }
    parts = {part: instantiate(config[part]) for part in OPTIMIZATION if trainable}
    made = bind(config["task"])(model, codec, recipe=recipe, **parts)
    task = checked_kind("task", made, Task, "attention_lab.tasks.Task")  # type: ignore[type-abstract]
    if getattr(task, "recipe", None) != recipe:
        needed = "super().__init__(model, codec, **options), with all options that the program passes"
        raise LabError(f"task: {type(task).__name__}.__init__ must call {needed}")
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
        raise LabError("the checkpoint's recipe is incomplete: it has no config")
    if type(version := recipe.get("version")) is not int or version != VERSION:
        raise LabError(
            f"the checkpoint's recipe has version {one_line(version)[:40]}, "
            f"but this program reads version {VERSION}"
        )
    kept = {part: with_moved_classes(recipe["config"].get(part)) for part in REBUILT}
    for name, part in kept.items():
        if type(part) is not dict or "_target_" not in part:
            raise LabError(f"the checkpoint's recipe is incomplete: it has no {name}._target_")
    check_targets(kept, "the checkpoint", checked_packages(allow))
    check_values(kept, "the checkpoint")
    if not isinstance(kept["data"].get("kind"), str):
        raise LabError("the checkpoint's recipe is incomplete: it has no data.kind")
    for part in ("sizes", "codec"):
        if type(recipe.get(part)) is not dict or "kind" not in recipe[part]:
            raise LabError(f"the checkpoint's recipe is incomplete: it has no {part}.kind")
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
        if isinstance(codec, RegressionCodec):  # the recipe does not contain the number of samples
            known: dict[str, Any] = {"features": len(codec.inputs), "targets": 1}
        else:
            known = vars(codec.sizes)
        later = {name: value for name, value in known.items() if name not in recipe["sizes"]}
        sizes = replace(sizes, **later)  # fields that older versions did not save
        if any(value is not None and vars(sizes)[name] != value for name, value in known.items()):
            raise LabError("the checkpoint's recipe cannot be read: its sizes do not match its data")
        task = make_task(config, sizes, codec, trainable=False)
        if not _fits(type(task), codec):
            raise LabError(
                f"the checkpoint's task is {type(task).__name__}, which does not fit {codec.KIND} data"
            )
        return task
    except (*BAD_VALUE_ERRORS, MemoryError, InstantiationException) as error:
        if target := missing_target(error):
            raise LabError(f"the checkpoint needs {target}: {explain_target(error, target)}") from None
        cause = error.__cause__ if isinstance(error, InstantiationException) and error.__cause__ else error
        raise LabError(f"the checkpoint's recipe cannot be read: {named_line(cause)}") from None


def _fits(task: type[Task], codec: Codec) -> bool:
    """Whether a task of this package is annotated with this kind of codec; True for a user-defined task."""
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


def bind(node: Config, without: str = "") -> Any:
    """The target of a node with its options bound; the caller adds the remaining arguments."""
    options = {key: value for key, value in node.items() if key != without}
    return instantiate(options, _partial_=True, _convert_="all")
