"""The parts of a configuration, and which of them matter for what: the one place that lists them."""

SEED = "seed"
"""The option over whose values results are averaged."""
MECHANISM = ("scoring", "normalizer", "pooling", "window")
"""An attention mechanism, in the order in which `Mechanism` takes its parts."""
OPTIMIZATION = ("optimizer", "schedule")
"""How parameters are learned."""
TRAINED = ("model", *MECHANISM, "data")
"""What a test takes from its checkpoint."""
REBUILT = ("model", "task", *MECHANISM, "data")
"""What a checkpoint keeps so that it can be rebuilt from it alone, in the order in which it keeps them."""
DECISIVE = (*TRAINED, "task", *OPTIMIZATION, "trainer", "callbacks", "monitor")
"""What decides the results of a run."""
DISPLAY_ONLY = (
    *("trainer.default_root_dir", "trainer.enable_progress_bar", "trainer.enable_model_summary"),
    *("trainer.log_every_n_steps", "trainer.num_sanity_val_steps"),
)
"""Options within `DECISIVE` that only decide what is shown, or where."""
RESUMED = (SEED, "ckpt_path", *DECISIVE)
"""What must be the same when a run is resumed."""
MAY_CHANGE = ("trainer.enable_progress_bar", "callbacks.progress_bar", "callbacks.resumable.every_seconds")
"""Options within `RESUMED` that may differ all the same."""
HPARAMS = (SEED, *TRAINED, "task", *OPTIMIZATION, "trainer")
"""What the HPARAMS tab shows."""
HPARAMS_HIDDEN = ("data.kind", "model.needs")
"""Options within `HPARAMS` that only say which models go with which data."""
SETTING = ("model", "data", *MECHANISM, *OPTIMIZATION)
"""The groups of `conf/` that make up an experiment: of the best trial of a search, these are written."""
COMPARED = (*SETTING, "callbacks")
"""The groups of `conf/` that may tell apart runs with the same command line."""
GROUPS = (*SETTING, "trainer", "callbacks", "logger")
"""The groups of `conf/` of which every run has exactly one choice."""
