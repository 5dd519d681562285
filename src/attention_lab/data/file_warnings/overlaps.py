"""Find examples that occur in several splits of the data: a test on them also measures memorisation."""

from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from attention_lab.data.reading.splitting import Splits

PASSAGE = 50
"""Length of a passage in symbols, the one with which Lee et al. (2107.06499) look for duplicates."""
CHUNK = 1 << 21  # number of symbols of a text that are processed at once
T = TypeVar("T")
_Hashes = npt.NDArray[np.uint64]
_BASE = 0x9E3779B97F4A7C15


class Keyed(NamedTuple):
    """An example in the form in which it is compared: the model's input and the expected answer."""

    given: Hashable
    answer: Hashable


E = TypeVar("E", bound=Sequence[Keyed])
S = TypeVar("S", bound=Sequence[str])


def split_names(files: Splits[str]) -> Splits[str]:
    """Names of the splits for messages: their files if these are distinct, otherwise file and split."""
    if len(set(files)) == len(files):
        return files
    return Splits(
        *(f"{file} ({split})" for file, split in zip(files, ("training", *Splits._fields[1:]), strict=True))
    )


def shared_examples(splits: Splits[E], names: Splits[str], other: str) -> str:
    """Say how many validation and test examples also occur in an earlier split; empty if there are none.

    Args:
        splits: the examples.
        names: names of the splits; see `split_names`.
        other: the word for an answer; the same input with a different answer is counted separately.
    """
    found = []
    for (name, examples), (earlier_name, earlier) in _pairs(splits, names):
        known, inputs = set(earlier), {example.given for example in earlier}
        same = sum(example in known for example in examples)
        also = sum(example.given in inputs for example in examples) - same
        of_all = f"of {len(examples):,} examples in {name} {'is' if (same or also) == 1 else 'are'}"
        if same:
            more = f", and {also:,} more with another {other}" if also else ""
            found.append(f"{same:,} {of_all} also in {earlier_name}{more}")
        elif also:
            found.append(f"{also:,} {of_all} in {earlier_name} with another {other}")
    return "; ".join(found)


def shared_passages(splits: Splits[S], names: Splits[str], unit: str) -> str:
    """Say how many passages of validation and test texts occur in an earlier split; empty if none do.

    Each text is split into passages of `PASSAGE` symbols; the remainder at its end is not counted. Passages
    are compared by polynomial hashes modulo 2^64, in time linear in the lengths (Karp and Rabin 1987).

    Args:
        splits: the symbols of each text.
        names: names of the splits; see `split_names`.
        unit: the word for symbols, in the plural.
    """
    numbers: dict[str, int] = {}
    texts = splits.map(
        lambda text: np.fromiter((numbers.setdefault(one, len(numbers)) for one in text), np.int32, len(text))
    )
    codes = np.random.default_rng(0).integers(0, 2**64, len(numbers), np.uint64)
    found = []
    for (name, text), (earlier_name, earlier) in _pairs(texts, names):
        wanted = np.concatenate([codes[:0], *_windows(text, codes)])[::PASSAGE]
        count = _count(wanted, _windows(earlier, codes))
        if count:
            share = f"{count:,} of {len(wanted):,} passages of {PASSAGE} {unit}"
            found.append(f"{share} in {name} {'is' if count == 1 else 'are'} also in {earlier_name}")
    return "; ".join(found)


def _pairs(splits: Splits[T], names: Splits[str]) -> Iterator[tuple[tuple[str, T], tuple[str, T]]]:
    """Each split used for evaluation, paired with each split before it."""
    for later, earlier in (("validation", "train"), ("test", "train"), ("test", "validation")):
        yield (
            (getattr(names, later), getattr(splits, later)),
            (getattr(names, earlier), getattr(splits, earlier)),
        )


def _windows(text: npt.NDArray[np.int32], codes: _Hashes) -> Iterator[_Hashes]:
    """The hash of `PASSAGE` symbols starting at each place, `sum_j code[place + j] BASE^j`, in chunks."""
    places = min(CHUNK, len(text)) + PASSAGE
    powers = np.cumprod(np.full(places, _BASE, np.uint64))
    inverse = np.cumprod(np.full(places, pow(_BASE, -1, 2**64), np.uint64))
    for start in range(0, len(text) - PASSAGE + 1, CHUNK):
        piece = codes[text[start : start + CHUNK + PASSAGE - 1]]
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(piece * powers[: len(piece)])])
        yield (sums[PASSAGE:] - sums[:-PASSAGE]) * inverse[: len(sums) - PASSAGE]


def _count(wanted: _Hashes, offered: Iterator[_Hashes]) -> int:
    """How many of the wanted hashes, counting repetitions, occur among those offered."""
    different, places = np.unique(wanted, return_inverse=True)
    if not len(different):
        return 0
    met = np.zeros(len(different), bool)
    for hashes in offered:
        nearest = np.searchsorted(different, hashes).clip(max=len(different) - 1)
        met[nearest[different[nearest] == hashes]] = True
    return int(met[places].sum())
