"""Experiment loggers that show a run: TensorBoard, Weights & Biases and MLflow."""

from attention_lab.loggers.base import Charts, RunLogger, run_loggers
from attention_lab.loggers.mlflow import MLFlowRunLogger
from attention_lab.loggers.tensorboard import TensorBoardRunLogger
from attention_lab.loggers.wandb import WandbRunLogger

__all__ = ["Charts", "MLFlowRunLogger", "RunLogger", "TensorBoardRunLogger", "WandbRunLogger", "run_loggers"]
