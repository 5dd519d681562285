"""The options of a test of trained models: those of training are the options of the run that trained them.

Hydra records its defaults for them instead, such as `trainer.max_epochs`, which a test does not use. So a
test saves them in its own folder; the folder that its `ckpt_path` names may be anyone's.
"""

from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

from attention_lab.commandline.option_paths import lookup
from attention_lab.commandline.overrides import part_of
from attention_lab.config_parts import OPTIMIZATION, TRAINED
from attention_lab.errors import LabError
from attention_lab.files.run_files import BEST, TRAINING
from attention_lab.runs.checkpoint_paths import run_of
from attention_lab.untrusted.plain_files import read_yaml

OF_TRAINING = (*OPTIMIZATION, "callbacks", "monitor", "trainer")
"""The parts that a test does not use, except for `USED`."""
_GROUPS = (*TRAINED, *OPTIMIZATION, "callbacks")
"""The groups whose choices a test takes from the run that trained its checkpoint."""
USED = ("trainer.precision", "trainer.limit_test_batches")
"""The options within `OF_TRAINING` that a test uses."""
CHOICES = "choices"
"""The part of `training.yaml` with the choices from the groups of `conf/`."""
_LISTED = 60
"""Maximum length of a list of checkpoints; a longer one is replaced by a hash."""


def is_test(config: Mapping[str, Any]) -> bool:
    """Whether a configuration is that of a test of checkpoints."""
    return config.get("stage") == "test"


def is_unused(config: Mapping[str, Any], key: str) -> bool:
    """Whether a job with this configuration does not use an option because it only tests a trained model."""
    return is_test(config) and key not in USED and part_of(key) in (*OF_TRAINING, "ckpt_path")


def run_of_test(config: Mapping[str, Any]) -> Path | None:
    """The folder of the run that trained the (first) checkpoint of a test; None if there is none."""
    tested = config.get("ckpt_path")
    first = tested[0] if isinstance(tested, list) and tested else tested
    return run_of(first) if is_test(config) and isinstance(first, str) else None


def read_training_options(folder: Path) -> dict[str, Any]:
    """The content of the `training.yaml` in a test's folder; empty if it is missing or damaged."""
    try:
        return _options(read_yaml(folder / TRAINING))
    except LabError:
        return {}


def with_options_of_training(config: Mapping[str, Any], trained: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration of a test with the options of training that the tested run had, as far as known.

    Its `ckpt_path` is a short name of an ensemble, the name of a checkpoint that is not its run's best, or
    None, so that tests of the best checkpoints of several seeds are one setting.
    """
    if not is_test(config):
        return config
    parts: dict[str, Any] = {part: trained[part] for part in OF_TRAINING if part in trained}
    for key in USED:
        part, _, option = key.partition(".")
        kept = {name: value for name, value in _options(parts.get(part)).items() if name != option}
        own = lookup(config, part, option)
        parts[part] = kept if own is None else {**kept, option: own}
    rest = {key: value for key, value in config.items() if key not in OF_TRAINING}
    return {**rest, **parts, "ckpt_path": _short_name(config.get("ckpt_path"))}


def with_choices_of_training(
    own: Mapping[str, str], given: Collection[str], trained: Mapping[str, Any]
) -> dict[str, str]:
    """The choices of a test, with those that it takes from the run that trained the first checkpoint.

    It takes its parts from the checkpoint, except for data chosen on the command line, but Hydra records the
    defaults for it.

    Args:
        own: the choices that Hydra recorded.
        given: the options on the command line.
        trained: the options of training.
    """
    taken = {*_GROUPS} - {group for group in TRAINED if group in given}
    kept = {group: choice for group, choice in own.items() if group not in taken}
    choices = plain_choices(trained.get(CHOICES))
    return {group: choice for group, choice in choices.items() if group in _GROUPS} | kept


def plain_choices(found: Any) -> dict[str, str]:
    """The choice from each group of `conf/` as text, from what a file says."""
    named = ((str(group), choice) for group, choice in _options(found).items())
    return {group: "null" if choice is None else str(choice) for group, choice in named if "/" not in group}


def _options(found: Any) -> dict[str, Any]:
    return dict(found) if isinstance(found, Mapping) else {}


def _short_name(given: Any) -> str | None:
    """A short name of the checkpoints of a test, different for different ones."""
    if not isinstance(given, list):
        name = str(given).rpartition("/")[2]
        return name if name.endswith(".ckpt") and name != BEST else None
    paths = [str(one).split("/") for one in given]
    before = _shared(paths)
    after = _shared([path[before:][::-1] for path in paths])
    names = ", ".join("/".join(path[before : len(path) - after]) for path in paths)
    if len(names) > _LISTED or len(set(map(tuple, paths))) == 1:
        names = f"#{blake2b(str(given).encode(), digest_size=2).hexdigest()}"
    folder = "/".join(paths[0][:before]) if paths else ""
    return f"{len(paths)} checkpoints{f' in {folder}' if folder else ''}: {names}"


def _shared(paths: Sequence[Sequence[str]]) -> int:
    """The number of parts that all paths begin with."""
    least = min(map(len, paths), default=0)
    return next((n for n, parts in enumerate(zip(*paths, strict=False)) if len(set(parts)) > 1), least)
