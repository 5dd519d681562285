"""stage=test: test a trained model, or an ensemble, on its own data or on other data."""

from omegaconf import DictConfig

from attention_lab.console_text import console_line
from attention_lab.experiment.build import make_data
from attention_lab.experiment.build_errors import blame_option
from attention_lab.experiment.console import in_sweep, warn_about_data
from attention_lab.experiment.given_checkpoint import check_data_size, load_trained_model
from attention_lab.experiment.stages.shared import prepare, run_test, trainer_configuration
from attention_lab.experiment.trainer.make import make_trainer
from attention_lab.files.paths import short_path
from attention_lab.files.run_files import CONFIG
from attention_lab.runs import results
from attention_lab.runs.started import mark_started


def test(config: DictConfig) -> None:
    """Test a checkpoint, or an ensemble of several, on its own data or on data given on the command line."""
    plain, folder = prepare(config)
    trained, tested, split = load_trained_model(plain)
    check_data_size(plain, tested)
    plain = tested
    with blame_option(plain):
        data = make_data(plain, trained.codec)
        warn_about_data(data, plain["stage"], split)
        trainer = make_trainer(trainer_configuration(plain))
    mark_started(folder, first=trainer.is_global_zero)
    results.write_config(folder, plain)
    results.write_training_options(folder, plain)
    if (count := len(trained.files)) > 1 and trainer.is_global_zero and not in_sweep():
        print(console_line(f"An ensemble of {count} checkpoints, listed in {short_path(folder / CONFIG)}"))
    trained.task.pictures_format = plain["pictures_format"]
    run_test(trainer, trained.task, data, folder, {}, None, plain["pictures"])
