"""stage=export: write a trained model to files that run elsewhere."""

from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from attention_lab.console_text import console_message
from attention_lab.experiment.build import to_plain
from attention_lab.experiment.given_checkpoint import load_trained_model
from attention_lab.experiment.trainer.options import checked_trainer_options
from attention_lab.files.paths import short_path


def export(config: DictConfig) -> None:
    """Export the model of `ckpt_path` to the file named by the option `export`, in this job's folder."""
    plain = to_plain(config)
    checked_trainer_options(plain["trainer"])
    trained = load_trained_model(plain).trained
    for path in trained.export(Path(HydraConfig.get().runtime.output_dir) / plain["export"]):
        print(console_message("Exported", short_path(path)))
