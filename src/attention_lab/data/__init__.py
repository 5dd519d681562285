"""Data sets as LightningDataModules: typed batches, codecs, and one-line errors for bad files."""

from typing import TYPE_CHECKING

from attention_lab.lazy_names import lazy_names

if TYPE_CHECKING:
    from attention_lab.data.classification import ClassificationData, Digits, Labelled
    from attention_lab.data.cmudict import CMUDict
    from attention_lab.data.graph import Graph8, GraphData, GraphFiles, Karate, LabelledGraph
    from attention_lab.data.images import DigitStrips, ImageExample, ImageFiles, ImageTransductionData
    from attention_lab.data.inflection.data_set import Inflection
    from attention_lab.data.labelled_images import LabelledImages
    from attention_lab.data.language import LanguageData, Text, Words
    from attention_lab.data.pairs import Pairs
    from attention_lab.data.reading.batches import (
        Batch,
        ClassificationBatch,
        LanguageBatch,
        NodeBatch,
        RegressionBatch,
        TransductionBatch,
    )
    from attention_lab.data.reading.codecs import (
        ClassificationCodec,
        Codec,
        ImageCodec,
        LabelledImageCodec,
        LanguageCodec,
        NodeCodec,
        RegressionCodec,
        SeriesCodec,
        TransductionCodec,
        codec_from_state,
    )
    from attention_lab.data.reading.datamodule import DataModule
    from attention_lab.data.reading.datasets import ClassificationSplit
    from attention_lab.data.reading.ragged import Ragged, RaggedVectors
    from attention_lab.data.reading.splitting import Splits
    from attention_lab.data.reading.vocabulary import Notation, Tokenizer, Vocabulary
    from attention_lab.data.regression import CSVRegression, Diabetes, RegressionData, Sine, Table
    from attention_lab.data.synthetic.classification import FarPairs, Motifs
    from attention_lab.data.synthetic.listops import ListOps
    from attention_lab.data.synthetic.recall import Recall
    from attention_lab.data.synthetic.sentences import Sentences
    from attention_lab.data.synthetic.toy import Copy, Repeat, Reverse, Sort, ToyTransduction
    from attention_lab.data.time_series import TimeSeries
    from attention_lab.data.transduction import Example, TransductionData

__all__ = [
    "Batch",
    "CMUDict",
    "CSVRegression",
    "ClassificationBatch",
    "ClassificationCodec",
    "ClassificationData",
    "ClassificationSplit",
    "Codec",
    "Copy",
    "DataModule",
    "Diabetes",
    "DigitStrips",
    "Digits",
    "Example",
    "FarPairs",
    "Graph8",
    "GraphData",
    "GraphFiles",
    "ImageCodec",
    "ImageExample",
    "ImageFiles",
    "ImageTransductionData",
    "Inflection",
    "Karate",
    "Labelled",
    "LabelledGraph",
    "LabelledImageCodec",
    "LabelledImages",
    "LanguageBatch",
    "LanguageCodec",
    "LanguageData",
    "ListOps",
    "Motifs",
    "NodeBatch",
    "NodeCodec",
    "Notation",
    "Pairs",
    "Ragged",
    "RaggedVectors",
    "Recall",
    "RegressionBatch",
    "RegressionCodec",
    "RegressionData",
    "Repeat",
    "Reverse",
    "Sentences",
    "SeriesCodec",
    "Sine",
    "Sort",
    "Splits",
    "Table",
    "Text",
    "TimeSeries",
    "Tokenizer",
    "ToyTransduction",
    "TransductionBatch",
    "TransductionCodec",
    "TransductionData",
    "Vocabulary",
    "Words",
    "codec_from_state",
]

_MODULES = [
    "classification",
    "cmudict",
    "graph",
    "inflection.data_set",
    "labelled_images",
    "language",
    "pairs",
    "reading.batches",
    "reading.codecs",
    "reading.datamodule",
    "reading.datasets",
    "reading.ragged",
    "reading.splitting",
    "reading.vocabulary",
    "regression",
    "images",
    "synthetic.classification",
    "synthetic.listops",
    "synthetic.recall",
    "synthetic.sentences",
    "synthetic.toy",
    "time_series",
    "transduction",
]
__getattr__ = lazy_names(__name__, __all__, _MODULES)  # specs are used before torch is imported
