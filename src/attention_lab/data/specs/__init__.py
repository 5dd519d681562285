"""The options of the data sets: declared, documented and given their defaults in one place, without torch.

A data set takes the fields of its spec as options; see `options_of`. A spec for data from files also reads
and checks the files.
"""

from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any

from attention_lab.constructor_options import make_spec
from attention_lab.data.reading.files import read_ahead, read_text
from attention_lab.data.specs import files, graph, images, packaged, sampled, tables
from attention_lab.data.specs.base import FileSpec
from attention_lab.data.specs.option_checks import check_batch_size
from attention_lab.errors import LabError

SPECS: Mapping[str, type[Any]] = {
    "CMUDict": packaged.CMUDictSpec,
    "CSVRegression": tables.CSVSpec,
    "Copy": sampled.ToySpec,
    "Diabetes": tables.TableSpec,
    "DigitStrips": sampled.DigitStripsSpec,
    "Digits": packaged.DigitsSpec,
    "FarPairs": sampled.FarPairsSpec,
    "GraphFiles": graph.GraphFilesSpec,
    "ImageFiles": images.ImageFilesSpec,
    "Inflection": files.InflectionSpec,
    "Karate": packaged.KarateSpec,
    "Labelled": files.LabelledSpec,
    "LabelledImages": images.LabelledImagesSpec,
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
    "TimeSeries": files.TimeSeriesSpec,
    "Words": packaged.WordsSpec,
}
"""The spec of each data set."""
MOST_SAMPLED = 1 << 25
"""Limit of `SampledSpec.cost` for a configuration from a file: about a minute, and 2 GB."""
LARGEST_BATCH = 1 << 14
"""Limit of `batch_size` for a configuration from a file, except for data used in one batch by default."""
MOST_IN_BATCH = 1 << 19
"""Limit of `SampledSpec.batch_cost` for a configuration from a file."""


def check_data(part: Mapping[str, Any]) -> None:
    """Reject wrong options of a data set of this package, and mistakes in its files, which are read ahead.

    Raises:
        LabError: an option or a file is wrong; the message names the option, or the file and the line.
    """
    spec = make_spec(SPECS, "attention_lab.data", part)
    if spec is None:
        return
    if hasattr(spec, "batch_size"):
        check_batch_size(spec.batch_size)
    if isinstance(spec, FileSpec):
        spec.check_training_files()
    if hasattr(spec, "load"):
        read_ahead(spec)


def check_given_data(part: Mapping[str, Any], given: Collection[str]) -> None:
    """Check options that replace those of a checkpoint, as far as they do not depend on other options.

    Raises:
        LabError: see `check_data`.
    """
    if "batch_size" in given:
        check_batch_size(part["batch_size"])
    kind = SPECS.get(str(part["_target_"]).removeprefix("attention_lab.data."), object)
    spec = make_spec(SPECS, "attention_lab.data", part) if issubclass(kind, FileSpec) else None
    if isinstance(spec, FileSpec):
        for name in ("train_file", "validation_file", "test_file", "file"):
            path = getattr(spec, name)
            if name in given and path is not None:
                spec.check_file(str(path))
    elif "test_file" in given and part.get("test_file") is not None:
        read_text(str(part["test_file"]))  # the data of the checkpoint determines the format


def check_size_from_file(part: Mapping[str, Any], given: Collection[str], source: str) -> None:
    """Reject sampled data, and batches, that are too large because of options from a file.

    Nothing is sampled for it. Options given on the command line may be as large as the user likes.

    Args:
        part: the options, with the data set as `_target_`.
        given: the names of the options given on the command line.
        source: where the others come from, for the message.

    Raises:
        LabError: it is too large; the message names the options.
    """
    try:
        spec = make_spec(SPECS, "attention_lab.data", part)
        chosen = {name: part[name] for name in ("_target_", *given) if name in part}
        typed = make_spec(SPECS, "attention_lab.data", chosen)
    except LabError:
        return  # constructing the data set reports it
    if spec is None:  # a class of the user's own
        return
    large = _large_numbers(spec, given)
    if "data.batch_size" in large and spec.batch_size > LARGEST_BATCH:
        raise LabError(
            f"{source}: data.batch_size={spec.batch_size} would need too much memory: give a smaller number "
            "on the command line, or this one if you do want it"
        )
    for measure, most in (("cost", MOST_SAMPLED), ("batch_cost", MOST_IN_BATCH)):
        if getattr(spec, measure, 0) > max(most, getattr(typed, measure, 0)):
            named = " and ".join(f"{name}={value}" for name, value in large.items())
            raise LabError(
                f"{source}: {named} would make too much data: give smaller numbers on the command line, or "
                "these if you do want that much"
            )


def _large_numbers(spec: Any, given: Collection[str]) -> dict[str, int]:
    """The numbers above their defaults in a spec, without those given on the command line."""
    numbers = {field.name: (getattr(spec, field.name), field.default) for field in fields(spec)}
    return {
        f"data.{name}": value
        for name, (value, usual) in numbers.items()
        if type(value) is int and type(usual) is int and value > usual and name not in {*given, "seed"}
    }
