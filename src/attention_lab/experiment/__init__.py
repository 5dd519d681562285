"""Build data, model, task and trainer from a configuration, and run its stage."""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NoReturn

from hydra.core.hydra_config import HydraConfig
from hydra.errors import CompactHydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from attention_lab.commandline.exit_errors import reason_of
from attention_lab.commandline.other_names import meant_by
from attention_lab.console_text import console_message
from attention_lab.errors import LabError, PrunedError, Stopped
from attention_lab.files.run_files import PRUNED
from attention_lab.files.writing import write_atomically

Stage = Callable[[DictConfig], Any]
STAGES = {
    "fit": "attention_lab.experiment.stages.fit:fit",
    "test": "attention_lab.experiment.stages.test:test",
    "predict": "attention_lab.experiment.stages.predict:predict",
    "report": "attention_lab.report.report_page:report",
    "leaderboard": "attention_lab.leaderboard.board:leaderboard",
    "export": "attention_lab.experiment.stages.export:export",
    "theorem": "attention_lab.experiment.stages.theorem:theorem",
}
"""The function of each stage, imported only when the stage runs: some need no PyTorch."""
CHOICES = {
    "stage": list(STAGES),
    "resume": ["auto"],
    "compile": ["true", "false"],
    "monitor.mode": ["min", "max"],
}
"""The choices of options outside the groups, for shell completion."""


def run(config: DictConfig) -> Any:
    """Run the configured stage; returns the best monitored value, which a sweeper optimises, or None.

    Bad input is reported in one line on standard error with exit status 1; in a sweep it ends only this
    job. The first process of a run copies the console output to `train.log`.
    """
    from attention_lab.commandline.console_log import logged_console
    from attention_lab.commandline.overrides import as_typed
    from attention_lab.interruption.ranks import is_rank_zero

    if not is_rank_zero():
        return _run(config)
    with logged_console(as_typed(HydraConfig.get().overrides.task), output=config.stage != "predict"):
        return _run(config)


def _run(config: DictConfig) -> Any:
    # torch reads this variable when it is imported. If threads wait for each other in a busy loop, small
    # models become 10 times slower whenever another program wants a core; if they sleep at once, always 1.6
    # times slower.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    from attention_lab.commandline.home_folders import expand_in_configuration
    from attention_lab.experiment import machine_failures
    from attention_lab.experiment.console import in_sweep, silence_libraries
    from attention_lab.interruption import exit_messages, ranks, resume, signals
    from attention_lab.runs import started

    folder = Path(HydraConfig.get().runtime.output_dir)
    ranks.exit_with_parent()
    try:
        expand_in_configuration(config)
        config = resume.resumed_configuration(config)
        with signals.raise_on_signals(), machine_failures.explain_machine_failures(config, folder):
            stage = choose_stage(config)
            silence_libraries()  # after they were imported: Lightning would set its level again
            result = stage(config)
            print(end="", flush=True)  # if output goes to a full disk, this fails
            if config.stage in ("report", "leaderboard") and not in_sweep():
                started.discard_new_folder(folder)  # unless it contains the report or leaderboard
            return result
    except Stopped as stopped:
        if config.stage != "fit" and not in_sweep():
            started.discard_new_folder(folder)  # unless it contains results
        exit_messages.exit_after_signal(stopped, folder, training=config.stage == "fit")
    except PrunedError as pruned:
        write_atomically(folder / PRUNED, f"{pruned}\n")
        return None
    except (LabError, OmegaConfBaseException) as error:
        _end_with(error, config, folder)


def _end_with(error: LabError | OmegaConfBaseException, config: DictConfig, folder: Path) -> NoReturn:
    """Report bad input in one line; the folder of a run that has not started is removed."""
    from attention_lab.experiment.console import in_sweep
    from attention_lab.interruption.ranks import is_rank_zero
    from attention_lab.runs import recorded_failures, run_folder, started

    reason = reason_of(error)
    message = console_message("Error", reason)
    if HydraConfig.get().mode != RunMode.RUN:
        # A sweep continues after this exception, but not after SystemExit.
        raise CompactHydraException(message) from None
    with suppress(LabError, OSError):  # the disk may be full
        if is_rank_zero() and not in_sweep() and not started.has_started(folder):
            started.discard_new_folder(folder)
        elif config.stage in run_folder.STAGES_WITH_METRICS:
            recorded_failures.record_failure(folder, error, reason)
    sys.exit(message)


def choose_stage(config: DictConfig) -> Stage:
    """Run all checks that need no PyTorch, and return the function of the configured stage.

    Raises:
        LabError: there is no such stage, or the configuration cannot work.
    """
    from attention_lab.commandline.configuration_checks import check_combination, check_stage, check_theorem
    from attention_lab.interruption import signals

    if config.stage not in STAGES:
        meant = meant_by("stage", str(config.stage))
        hint = f" (did you mean {meant}?)" if meant else ""
        raise LabError(f"stage={config.stage} is unknown{hint}: choose {', '.join(STAGES)}")
    check_stage(config)
    if config.stage in ("fit", "test", "predict", "export"):
        from attention_lab.commandline.option_values import few_cores_warning
        from attention_lab.interruption import own_process, resume
        from attention_lab.interruption.ranks import is_rank_zero
        from attention_lab.lightning_import import import_lightning, names_other_packages

        check_combination(config)
        OmegaConf.resolve(config)
        missing = sorted(OmegaConf.missing_keys(config))
        if missing and config.stage == "fit":
            raise LabError(f"{missing[0]} must be given: add {missing[0]}=... to the command line")
        if config.stage in ("fit", "test") and own_process.needs_own_process(config):
            return lambda _: own_process.run_in_own_process()
        _check_early(config)
        if config.stage in ("fit", "test") and is_rank_zero() and (warning := few_cores_warning(config)):
            print(console_message("Warning", warning), file=sys.stderr)
        if config.stage == "fit":
            resume.save_configuration(Path(HydraConfig.get().runtime.output_dir), config)
        if not config.allow and not names_other_packages(OmegaConf.to_container(config)):
            with signals.held_back():
                import_lightning()
    elif config.stage == "theorem":
        check_theorem(config)
    with signals.held_back():
        stage: Stage = resolve_name(STAGES[config.stage])
    return stage


def _check_early(config: DictConfig) -> None:
    """Find mistakes in checkpoints, inputs, models and data before PyTorch is imported, which takes seconds.

    The same checks run again later.

    Raises:
        LabError: a check failed.
    """
    from attention_lab.commandline.overrides import option_names
    from attention_lab.config_parts import MECHANISM
    from attention_lab.data.specs import check_data, check_given_data
    from attention_lab.experiment.inputs import check_inputs
    from attention_lab.interruption import resume
    from attention_lab.models.specs import check_model
    from attention_lab.runs.checkpoint_paths import needed_checkpoints, one_checkpoint

    plain: Any = OmegaConf.to_container(config)
    if config.stage != "fit":
        given = option_names(HydraConfig.get().overrides.task)
        needed_checkpoints(plain["ckpt_path"], config.stage)
        if part := next((key for key in given if key in MECHANISM), None):
            raise LabError(f"stage={config.stage} takes {part} from the checkpoint: leave out {part}=...")
        options = [key.removeprefix("data.") for key in given if key.startswith("data.")]
        if options and config.stage == "test":
            check_given_data(plain["data"], options)
        if config.stage == "predict":
            check_inputs(plain["inputs"], HydraConfig.get().overrides.task)
    elif plain["resume"] is None or not resume.has_finished(Path(HydraConfig.get().runtime.output_dir)):
        # a finished run needs neither model nor data, and a run to resume has its own checkpoint
        if plain["resume"] is None:
            one_checkpoint(plain["ckpt_path"])
        check_model(plain["model"])
        check_data(plain["data"])
