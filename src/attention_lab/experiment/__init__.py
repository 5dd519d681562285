"""From a configuration to data, model, task and trainer, and to a run. Hydra is known only here."""

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.errors import CompactHydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from attention_lab.errors import LabError, PrunedError, Stopped, first_line

STAGES = ("fit", "test", "predict", "report", "leaderboard", "theorem")


def run(config: DictConfig) -> Any:
    """Run the configured stage; returns what a sweeper optimises (the best monitored value), or None.

    Bad input becomes one line on standard error and exit status 1, and ends this job of a sweep only.
    """
    # Read when torch is imported. Threads that wait for each other in a busy loop make small models 10 times
    # slower whenever another program wants a core; threads that sleep at once, 1.6 times slower always.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    from attention_lab.experiment import machine_failures
    from attention_lab.interruption import exit_messages, resume, signals
    from attention_lab.runs import run_folder

    folder = Path(HydraConfig.get().runtime.output_dir)
    signals.exit_with_parent()
    try:
        config = resume.rebuilt(config)
        with signals.raise_on_signals(), machine_failures.explain_machine_failures(config, folder):
            result = _run(config)
            print(end="", flush=True)  # a full disk behind the console is a failure, too
            return result
    except Stopped as stopped:
        exit_messages.exit_after_signal(stopped, folder, training=config.stage == "fit")
    except PrunedError as pruned:
        from attention_lab.search.jobs import mark_pruned

        mark_pruned(folder, pruned)
        return None
    except (LabError, OmegaConfBaseException) as error:
        reason = first_line(error)
        if HydraConfig.get().mode == RunMode.RUN:
            if config.stage in run_folder.STAGES:
                with suppress(LabError):  # it may be the disk that is full
                    run_folder.record_failure(folder, error, reason)
            sys.exit(f"Error: {reason}")
        # A sweep goes on after this exception, and would not after SystemExit.
        raise CompactHydraException(f"Error: {reason}") from None


def _run(config: DictConfig) -> Any:
    """What `run` does, with errors as they come."""
    from attention_lab.commandline.groups import check_combination
    from attention_lab.interruption import own_process, resume

    if config.stage not in STAGES:
        raise LabError(f"stage={config.stage} is unknown: choose {', '.join(STAGES)}")
    if config.stage == "theorem":
        from attention_lab.experiment import theorem_stage

        return theorem_stage.theorem(config)
    if config.stage == "report":
        from attention_lab.runs import report_page

        return report_page.report(config)
    if config.stage == "leaderboard":
        from attention_lab.leaderboard import board

        return board.leaderboard(config)
    check_combination(config)
    OmegaConf.resolve(config)
    missing = sorted(OmegaConf.missing_keys(config))
    if missing and config.stage == "fit":
        raise LabError(f"{missing[0]} must be given: add {missing[0]}=... to the command line")
    if config.stage != "predict":
        own_process.check_shared_folder()
    if config.stage != "predict" and own_process.needs_own_process(config):
        return own_process.run_in_own_process()
    from attention_lab.lightning_import import import_lightning

    if config.stage == "fit":
        resume.note(Path(HydraConfig.get().runtime.output_dir), config)
    import_lightning()
    from attention_lab.experiment import stages

    return getattr(stages, config.stage)(config)
