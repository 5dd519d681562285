"""LightningModules: loss, metrics and pictures for each kind of data; also predictors without Lightning."""

from typing import TYPE_CHECKING

from attention_lab.lazy_names import lazy_names

if TYPE_CHECKING:
    from attention_lab.tasks.classification import Classification, LabelPrediction
    from attention_lab.tasks.language import LanguageModeling
    from attention_lab.tasks.nodes import NodeClassification
    from attention_lab.tasks.observation import Observation
    from attention_lab.tasks.regression import Regression
    from attention_lab.tasks.sequence_generation import SequencePredictor
    from attention_lab.tasks.task import Task
    from attention_lab.tasks.transduction import Transduction

__all__ = [
    "Classification",
    "LabelPrediction",
    "LanguageModeling",
    "NodeClassification",
    "Observation",
    "Regression",
    "SequencePredictor",
    "Task",
    "Transduction",
]

_MODULES = [
    "observation",
    "sequence_generation",
    "task",
    "transduction",
    "classification",
    "language",
    "nodes",
    "regression",
]
__getattr__ = lazy_names(__name__, __all__, _MODULES)  # predicting needs no Lightning
