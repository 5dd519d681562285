"""Lists of a configuration's parts, by purpose; no other file repeats them."""

from collections.abc import Mapping
from typing import Any

from attention_lab.sizes import KIND_OF_DATA

SEED = "seed"
"""The option over whose values results are averaged."""
MECHANISM = ("scoring", "normalizer", "pooling", "window")
"""The parts of an attention mechanism, in the order of `Mechanism`'s fields."""
OPTIMIZATION = ("optimizer", "schedule")
"""The parts that say how parameters are learned."""
TRAINED = ("model", *MECHANISM, "data")
"""The parts that a test takes from its checkpoint."""
REBUILT = ("model", "task", *MECHANISM, "data")
"""The parts saved in a checkpoint, in this order; they suffice to rebuild its model."""
DECISIVE = (*TRAINED, "task", *OPTIMIZATION, "trainer", "callbacks", "monitor")
"""The parts that affect the results of a run."""
DISPLAY_ONLY = (
    *("trainer.default_root_dir", "trainer.enable_progress_bar", "trainer.enable_model_summary"),
    *("trainer.log_every_n_steps", "trainer.num_sanity_val_steps"),
    *("callbacks.progress_bar", "callbacks.learning_rate", "callbacks.attention_maps"),
    *("callbacks.fitted_curve", "callbacks.embeddings", "callbacks.resumable"),
)
"""Options within `DECISIVE`, or folders of them, that only affect what is displayed or written."""
INDIFFERENT = (
    *("stage", "allow", "threads", "resume", "run", "export", "inputs", "pictures", "pictures_format"),
    *("tags", "notes", "logger", "launcher", "sweep"),
)
"""Parts outside `DECISIVE` that do not affect the results of a run."""
RESUMED = (SEED, "ckpt_path", *DECISIVE)
"""The parts that must be the same when a run is resumed."""
MAY_CHANGE = ("trainer.enable_progress_bar", "callbacks.progress_bar", "callbacks.resumable.every_seconds")
"""Options within `RESUMED` that may differ nevertheless."""
_UNLISTED: Mapping[object, Mapping[str, Any]] = {
    "attention_lab.models.MultiHeadClassifier": {"norm": "pre"},
    "attention_lab.models.Transformer": {"norm": "pre"},
    "attention_lab.models.LanguageModel": {"norm": "pre"},
    "attention_lab.models.GraphClassifier": {"norm": "pre"},
    "attention_lab.tasks.NodeClassification": {"label_smoothing": 0.0},
    "attention_lab.tasks.schedules.cosine": {"final": 0.01},
}
"""By class: options that the configurations of older runs may lack, and the values that those runs used."""
HPARAMS = (SEED, *TRAINED, "task", *OPTIMIZATION, "trainer")
"""The parts shown in the HPARAMS tab."""
HPARAMS_HIDDEN = tuple(f"{part}.{key}" for part, key in KIND_OF_DATA.items())
"""Options within `HPARAMS` that only say which models go with which data."""
SETTING = ("model", "data", *MECHANISM, *OPTIMIZATION)
"""The groups of `conf/` that define an experiment; a search writes these for its best trial."""
COMPARED = (*SETTING, "callbacks")
"""The groups of `conf/` in which runs with the same command line may differ."""
GROUPS = (*SETTING, "trainer", "callbacks", "logger")
"""The groups of `conf/` from which every run has exactly one choice."""
MOST_LEVELS = 30
"""Maximum depth of nested options, on the command line or in a file. OmegaConf fails at a depth of 80; at a
few thousand, the YAML parser, which is written in C, crashes the program."""


def affects_results(key: str) -> bool:
    """Whether the option of this dotted path, or this group, may affect the results of a run."""
    part = key.partition(".")[0].partition("/")[0]  # as in sweep/sampler
    return part not in INDIFFERENT and ".".join(key.split(".")[:2]) not in DISPLAY_ONLY


def completed(part: Any) -> Any:
    """A part of a run's configuration, with the options added that it lacks because the run is older."""
    if not isinstance(part, Mapping) or not isinstance(part.get("_target_"), str):
        return part
    return {**_UNLISTED.get(part["_target_"], {}), **part}
