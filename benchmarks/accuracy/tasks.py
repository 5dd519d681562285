"""The shared tasks: the names of their files, the experiments that learn them, and published results."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from attention_lab.errors import LabError
from attention_lab.untrusted.plain_files import read_small_text

HERE = Path(__file__).parent
PARTS = ("train", "dev", "test")


@dataclass(frozen=True)
class SharedTask:
    """A shared task.

    Attributes:
        experiment: the experiment of `conf/experiment`.
        file: a pattern for the names of its files, with the groups `language`, `part` and, if there are
            training sets of several sizes, `size`.
        kinds: the kinds of models in the ensemble, each given by its options.
        accuracy: whether its table has accuracies rather than error rates.
        note: the line below its table.
    """

    experiment: str
    file: re.Pattern[str]
    kinds: tuple[str, ...]
    accuracy: bool
    note: str

    def published(self) -> tuple[list[str], dict[str, dict[str, float]]]:
        """The names of published systems, and their results in percent for each language."""
        lines = read_small_text(HERE / f"{self.experiment}.tsv").strip().split("\n")
        _, *systems = lines[0].split("\t")
        rows = [line.split("\t") for line in lines[1:]]
        return systems, {name: dict(zip(systems, map(float, row), strict=True)) for name, *row in rows}


TASKS = {
    "inflection": SharedTask(
        "inflection",
        re.compile(
            r"(?P<language>.+?)-(?:(?P<part>train)-(?P<size>low|medium|high)|(?P<held>dev)"
            r"|(?:uncovered-)?(?P<tested>test))(?:\.tsv|\.txt)?"
        ),
        kinds=("data.right_to_left=false", "data.right_to_left=true"),
        accuracy=True,
        note=(
            "Words right, in percent. UZH 2017: the best system of CoNLL-SIGMORPHON 2017 with 1,000\n"
            "training words, an ensemble (82.8 over 52 languages). UZH 2018: Makarov and Clematide (2018),\n"
            "one model (mean of five) and the best ensemble. Theirs are on test words, computed from the\n"
            "outputs that they published."
        ),
    ),
    "g2p": SharedTask(
        "g2p",
        re.compile(r"(?P<language>[^_]+)_(?:(?P<part>train)|(?P<held>dev)|(?P<tested>test))\.tsv"),
        kinds=("pooling=soft", "pooling=monotonic"),
        accuracy=False,
        note=(
            "Words in error, in percent. LSTM with attention: the baseline of SIGMORPHON 2020, task 1, the\n"
            "best of 36 settings for each language, on test words."
        ),
    ),
}


@dataclass(frozen=True)
class Language:
    """The files of a language.

    Attributes:
        name: the language's name in file names.
        files: the files of the parts `train`, `dev` and `test`; without a test file, dev takes its place.
        tested: the part whose file is `files["test"]`.
    """

    name: str
    files: Mapping[str, Path]
    tested: str


def languages(task: SharedTask, folder: Path, size: str) -> list[Language]:
    """Find the languages in a folder with the official layout, sorted by name.

    Args:
        task: the shared task.
        folder: the folder with its files.
        size: which training set to use, if there are several.

    Raises:
        LabError: the folder cannot be read, or has no language with both a training and a development file.
    """
    found: dict[str, dict[str, Path]] = {}
    try:
        paths = sorted(folder.iterdir())
    except OSError as error:
        raise LabError(f"--data {folder}: {error.strerror}") from None
    for path in paths:
        match = task.file.fullmatch(path.name)
        if match is None or match.groupdict().get("size") not in (None, size):
            continue
        part = next(part for part in PARTS if part in (match["part"], match["held"], match["tested"]))
        found.setdefault(match["language"], {})[part] = path.absolute()
    usable = {name: files for name, files in found.items() if {"train", "dev"} <= files.keys()}
    if not usable:
        example = "arabic-train-medium and arabic-dev" if task.accuracy else "bul_train.tsv and bul_dev.tsv"
        raise LabError(
            f"--data {folder}: no language has a training and a development file, such as {example}"
        )
    return [
        Language(name, {"test": files["dev"]} | files, "test" if "test" in files else "dev")
        for name, files in sorted(usable.items())
    ]
