"""The sweeper, in the only namespace where Hydra looks for plugins; Hydra imports it at every start."""

from collections.abc import Mapping

from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


class OptunaSweeper(Sweeper):
    """Runs the trials of an Optuna study: see `attention_lab.search.trials`.

    Args:
        params: searched options in addition to the model's own space, each with Hydra's sweep syntax.
    """

    def __init__(self, params: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self.params = dict(params or {})
        self.launcher: Launcher | None = None

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Called by Hydra once everything is composed."""
        self.config, self.hydra_context = config, hydra_context
        HydraConfig.instance().set_config(config)  # for ${hydra:...}; Hydra sets it for jobs only
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> None:
        """Run trials until enough are complete or pruned; an error ends the program with one line."""
        from attention_lab.commandline.choice_checks import check_installed
        from attention_lab.commandline.exit_errors import errors_in_one_line

        assert self.launcher is not None
        assert self.config is not None
        assert self.hydra_context is not None
        given = [*(f"{key}={value}" for key, value in self.params.items()), *arguments]
        with errors_in_one_line():
            check_installed("sweep", "optuna")
            from attention_lab.search.trials import search

            search(self.config, given, self.launcher, self.hydra_context.config_loader)
