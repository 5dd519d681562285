"""Data sets as LightningDataModules: typed batches, codecs, and one-line errors for bad files."""

from attention_lab.data.batches import Batch, ClassificationBatch, RegressionBatch, TransductionBatch
from attention_lab.data.classification import Digits, Labelled
from attention_lab.data.cmudict import CMUDict
from attention_lab.data.codecs import (
    ClassificationCodec,
    Codec,
    RegressionCodec,
    TransductionCodec,
    codec_from_state,
)
from attention_lab.data.datamodule import DataModule
from attention_lab.data.pairs import Pairs
from attention_lab.data.regression import CSVRegression, Diabetes, RegressionData, Sine
from attention_lab.data.toy import Copy, Reverse, Sort, ToyTransduction
from attention_lab.data.transduction import TransductionData

__all__ = [
    "Batch",
    "CMUDict",
    "CSVRegression",
    "ClassificationBatch",
    "ClassificationCodec",
    "Codec",
    "Copy",
    "DataModule",
    "Diabetes",
    "Digits",
    "Labelled",
    "Pairs",
    "RegressionBatch",
    "RegressionCodec",
    "RegressionData",
    "Reverse",
    "Sine",
    "Sort",
    "ToyTransduction",
    "TransductionBatch",
    "TransductionCodec",
    "TransductionData",
    "codec_from_state",
]
