"""Lists of a configuration's parts, by purpose; no other file repeats them."""

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
)
"""Options within `DECISIVE` that only affect what is displayed or where it is written."""
RESUMED = (SEED, "ckpt_path", *DECISIVE)
"""The parts that must be the same when a run is resumed."""
MAY_CHANGE = ("trainer.enable_progress_bar", "callbacks.progress_bar", "callbacks.resumable.every_seconds")
"""Options within `RESUMED` that may differ nevertheless."""
HPARAMS = (SEED, *TRAINED, "task", *OPTIMIZATION, "trainer")
"""The parts shown in the HPARAMS tab."""
HPARAMS_HIDDEN = ("data.kind", "model.needs")
"""Options within `HPARAMS` that only say which models go with which data."""
SETTING = ("model", "data", *MECHANISM, *OPTIMIZATION)
"""The groups of `conf/` that define an experiment; a search writes these for its best trial."""
COMPARED = (*SETTING, "callbacks")
"""The groups of `conf/` in which runs with the same command line may differ."""
GROUPS = (*SETTING, "trainer", "callbacks", "logger")
"""The groups of `conf/` from which every run has exactly one choice."""
