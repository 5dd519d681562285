"""The options of a test of trained models: those of training are the options of the run that trained them.

Hydra records its defaults for them instead, such as `trainer.max_epochs`, which a test does not use.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

from attention_lab.commandline.option_paths import lookup
from attention_lab.commandline.overrides import part_of
from attention_lab.errors import LabError
from attention_lab.run_files import BEST, CONFIG
from attention_lab.runs.checkpoint_paths import run_of
from attention_lab.runs.config_parts import OPTIMIZATION
from attention_lab.untrusted.plain_files import read_yaml

OF_TRAINING = (*OPTIMIZATION, "callbacks", "monitor", "trainer")
"""The parts that a test does not use, except for `USED`."""
USED = ("trainer.precision", "trainer.limit_test_batches")
"""The options within `OF_TRAINING` that a test uses."""
_LISTED = 60
"""Most characters of the names of checkpoints that are listed."""


def is_test(config: Mapping[str, Any]) -> bool:
    """Whether a configuration is that of a test of checkpoints."""
    return config.get("stage") == "test"


def is_unused(config: Mapping[str, Any], key: str) -> bool:
    """Whether a job with this configuration does not use an option because it only tests a trained model."""
    return is_test(config) and key not in USED and part_of(key) in (*OF_TRAINING, "ckpt_path")


def tested_run(config: Mapping[str, Any]) -> Path | None:
    """The folder of the run that trained the (first) checkpoint of a test; None if there is none."""
    tested = config.get("ckpt_path")
    first = tested[0] if isinstance(tested, list) and tested else tested
    return run_of(first) if is_test(config) and isinstance(first, str) else None


def with_options_of_training(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration of a test with the options of training that the tested run had, if it is found.

    Its `ckpt_path` is a short name of an ensemble, the name of a checkpoint that is not its run's best, or
    None, so that tests of the best checkpoints of several seeds are one setting.
    """
    run = tested_run(config)
    if not is_test(config):
        return config
    trained = {} if run is None else _read_options(run / CONFIG)
    parts: dict[str, Any] = {part: trained[part] for part in OF_TRAINING if part in trained}
    for key in USED:
        part, _, option = key.partition(".")
        if (own := lookup(config, part, option)) is not None:
            parts[part] = {**_options(parts.get(part)), option: own}
    rest = {key: value for key, value in config.items() if key not in OF_TRAINING}
    return {**rest, **parts, "ckpt_path": _short_name(config.get("ckpt_path"))}


def _options(found: Any) -> dict[str, Any]:
    return dict(found) if isinstance(found, Mapping) else {}


def _read_options(path: Path) -> dict[str, Any]:
    try:
        return _options(read_yaml(path))
    except LabError:
        return {}


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
