"""Experiment trackers that show a run: TensorBoard, Weights & Biases and MLflow."""

from attention_lab.callbacks.trackers.base import Charts, RunTracker, run_trackers
from attention_lab.callbacks.trackers.mlflow import MlflowTracker
from attention_lab.callbacks.trackers.tensorboard import RunLogger
from attention_lab.callbacks.trackers.wandb import WandbTracker

__all__ = ["Charts", "MlflowTracker", "RunLogger", "RunTracker", "WandbTracker", "run_trackers"]
