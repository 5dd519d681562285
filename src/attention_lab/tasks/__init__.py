"""LightningModules: loss, metrics and pictures for each kind of data."""

from attention_lab.tasks.classification import Classification, LabelPrediction
from attention_lab.tasks.language import LanguageModeling
from attention_lab.tasks.nodes import NodeClassification
from attention_lab.tasks.observation import Observation
from attention_lab.tasks.regression import Regression
from attention_lab.tasks.task import RECIPE, Task
from attention_lab.tasks.transduction import Transduction

__all__ = [
    "RECIPE",
    "Classification",
    "LabelPrediction",
    "LanguageModeling",
    "NodeClassification",
    "Observation",
    "Regression",
    "Task",
    "Transduction",
]
