"""From a configuration to data, model, task and trainer, and from those to a run. Hydra is known here only."""

from typing import Any

from hydra.errors import CompactHydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from attention_lab.errors import LabError

STAGES = ("fit", "test", "predict")


def run(config: DictConfig) -> Any:
    """Run the configured stage; returns what a sweeper optimises (the best monitored value), or None.

    Bad input becomes one line on standard error and exit status 1, and ends this job of a sweep only.
    """
    from attention_lab.experiment import launch
    from attention_lab.experiment.choices import check_mix

    try:
        if config.stage not in STAGES:
            raise LabError(f"stage={config.stage} is unknown: choose {', '.join(STAGES)}")
        check_mix(config)
        OmegaConf.resolve(config)
        missing = sorted(OmegaConf.missing_keys(config))
        if missing and config.stage == "fit":
            raise LabError(f"{missing[0]} must be given: add {missing[0]}=... to the command line")
        if config.stage == "fit" and launch.needs_own_process(config):
            return launch.run_in_own_process()
        from attention_lab.experiment import stages

        return getattr(stages, config.stage)(config)
    except LabError as error:
        # Hydra prints this exception as its bare text, without a traceback.
        raise CompactHydraException(f"Error: {error}") from None
    except OmegaConfBaseException as error:
        raise CompactHydraException(f"Error: {str(error).splitlines()[0]}") from None
