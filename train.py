"""Train, test or use a model: `python train.py --help` explains the options."""

from attention_lab.interruption.early_signals import exit_on_signals

if __name__ == "__main__":
    exit_on_signals()  # before the imports, which take a second

from typing import Any

import hydra
from omegaconf import DictConfig

from attention_lab.commandline.console_streams import prepare
from attention_lab.commandline.exit_errors import errors_in_one_line
from attention_lab.experiment.before_hydra import prepare_command_line, share_config_store
from attention_lab.runs.run_names import register_resolvers

register_resolvers()  # before Hydra names the run's folder
share_config_store()


@errors_in_one_line()
@hydra.main(version_base="1.3", config_path="conf", config_name="config")
def main(config: DictConfig) -> Any:
    """Run one experiment and return its monitored metric, which a sweeper needs."""
    from attention_lab.experiment import run  # here, so that torch is imported only when it is needed

    return run(config)


if __name__ == "__main__":
    prepare()
    prepare_command_line()
    main()
