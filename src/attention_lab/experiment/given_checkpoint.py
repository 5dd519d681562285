"""Load the checkpoints given by `ckpt_path`, with the changes that the command line may make to them."""

import sys
from pathlib import Path
from typing import Any, NamedTuple

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from attention_lab.commandline.overrides import options_given, parse_overrides
from attention_lab.config_parts import REBUILT
from attention_lab.console_text import console_message
from attention_lab.data.specs import check_size_from_file
from attention_lab.errors import LabError
from attention_lab.experiment.build import Config, to_plain
from attention_lab.experiment.checkpoints import load_checkpoints, not_finite_warning
from attention_lab.experiment.part_options import check_typed_option
from attention_lab.inference.trained_model import TrainedModel
from attention_lab.interruption.ranks import is_rank_zero
from attention_lab.runs.checkpoint_paths import needed_checkpoints
from attention_lab.tasks import Task

TRAINING_FILES = ("train_file", "validation_file", "file")
"""Options of data that a test does not need if it is given a test file."""


class Given(NamedTuple):
    """A trained model, and how to use it.

    Attributes:
        trained: the model.
        config: the configuration, with the parts of the (first) checkpoint.
        split: the file whose random test split is tested, if the model was trained on another file.
    """

    trained: TrainedModel[Task]
    config: dict[str, Any]
    split: str | None


def load_trained_model(plain: Config) -> Given:
    """Load the trained model, and take its parts of the configuration from the (first) checkpoint.

    Options of `data` and `task` given on the command line override the checkpoint's.
    """
    trained_on: set[str] = set()

    def adapted(kept: Config) -> Config:
        trained_on.add(_absolute(kept["data"].get("file")))
        return with_overrides(kept, plain)

    paths = [str(path) for path in needed_checkpoints(plain["ckpt_path"], plain["stage"])]
    trained = load_checkpoints(paths, adapted, plain["allow"])
    if (warning := not_finite_warning(trained)) and is_rank_zero():
        print(console_message("Warning", warning), file=sys.stderr)
    given = {"ckpt_path": paths if len(paths) > 1 else paths[0]}
    config = {**plain, **given, **trained.task.recipe["config"]}
    file, fractions = config["data"].get("file"), config["data"].get("fractions")
    has_test_split = "test_file" in config["data"] and fractions and fractions[-1] > 0
    is_new = has_test_split and _absolute(file) not in trained_on
    return Given(trained, config, str(file) if file is not None and is_new else None)


def _absolute(file: Any) -> str:
    return str(Path(str(file)).absolute())


def check_data_size(given: Config, config: Config) -> None:
    """Reject data that the checkpoint's options make too large to sample.

    Args:
        given: the configuration from the command line alone.
        config: the configuration with the parts from the checkpoint.

    Raises:
        LabError: see `check_size_from_file`.
    """
    if config["data"] != given["data"]:
        typed = options_given(parse_overrides(HydraConfig.get().overrides.task), "data")
        check_size_from_file(config["data"], typed, f"ckpt_path={config['ckpt_path']}")


def with_overrides(kept: Config, plain: Config) -> Config:
    """A checkpoint's configuration with the command line's options of `data` and `task`.

    Raises:
        LabError: an option does not exist in the checkpoint's task, or a part cannot be changed.
    """
    merged, given = OmegaConf.create(dict(kept)), set()
    for override in parse_overrides(HydraConfig.get().overrides.task):
        part, _, option = override.key_or_group.partition(".")
        if part in ("data", "task") and option:
            if part == "task" and (name := option.partition(".")[0]) not in kept["task"]:
                check_typed_option(part, name, kept["task"]["_target_"])
            if override.value() is not None:
                given.add(option)
            OmegaConf.update(merged, override.key_or_group, override.value())
        elif part == "data" and plain["data"]["_target_"] != kept["data"]["_target_"]:
            kind, needed = plain["data"]["kind"], kept["data"]["kind"]
            if kind != needed:
                raise LabError(f"data={override.value()} is {kind} data, but the checkpoint needs {needed}")
            merged.data = plain["data"]
        elif override.key_or_group == "model" and plain["model"]["_target_"] == kept["model"]["_target_"]:
            continue  # it may be named again
        elif part in REBUILT and part != "data":
            raise LabError(f"stage={plain['stage']} takes {part} from the checkpoint: leave out {part}=...")
    if "test_file" in given and given.isdisjoint(TRAINING_FILES):
        _leave_out_training_files(merged.data)
    return to_plain(merged)


def _leave_out_training_files(data: DictConfig) -> None:
    """Test on the test file alone, unless its examples need the training split."""
    if data.get("known_forms") and data.get("train_file") is not None:
        return
    for name in TRAINING_FILES:
        if name in data:
            data[name] = None
