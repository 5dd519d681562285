"""Symbols of data and inputs that never occur in training: which ones, and in how many examples."""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple, TypeVar

from attention_lab.console_text import quoted
from attention_lab.data.file_warnings.overlaps import Keyed
from attention_lab.data.reading.splitting import Splits
from attention_lab.data.reading.vocabulary import Vocabulary, is_tag
from attention_lab.data.specs.base import FileSpec

Sequences = Iterable[Sequence[str]]
S = TypeVar("S", bound=Sequences)
_NAMED, _LONGEST = 5, 20
"""Maximum number of symbols that a message names, and of characters of each."""
_LONGEST_LABEL = 1000
"""Maximum length of a label that is normalised, as accents take quadratic time."""


class Terms(NamedTuple):
    """The wording of a message.

    Attributes:
        symbol: the kind of symbol, in the singular.
        examples: the kind of example, in the plural.
        effect: what the model does with such symbols.
        reason: why the model does not know them; `{s}` is the ending of a verb in the singular.
    """

    symbol: str = "symbol"
    examples: str = "examples"
    effect: str = "read as unknown"
    reason: str = "never occur{s} in training"


def unseen_symbols(
    sequences: Sequences, vocabulary: Vocabulary, place: str, terms: Terms, number: str = ""
) -> str:
    """One line that names the symbols missing from a vocabulary; empty if there are none.

    Args:
        sequences: the symbols of each example.
        vocabulary: the symbols of training.
        place: the name of the file, or other origin, of the examples.
        terms: the wording of the message.
        number: what the number of an example is called ("line"); if empty, the first one is not named.

    >>> unseen_symbols(["ab", "cdc"], Vocabulary(["a", "b"]), "a.tsv", Terms())
    "2 symbols in a.tsv never occur in training and are read as unknown: 'c', 'd' (in 1 of 2 examples)"
    """
    counts: Counter[str] = Counter()
    total, affected = 0, []
    for total, symbols in enumerate(sequences, start=1):  # it is used after the loop
        if missing := set(vocabulary.unseen(symbols)):
            counts.update(sorted(missing))
            affected.append(total)
    first = f", first in {number} {affected[0]:,}" if number and affected else ""
    line = _line(counts, place, terms, f"{len(affected):,} of {total:,} {terms.examples}{first}")
    return line + _in_another_form(counts, vocabulary)


def unseen_in_files(splits: Splits[S], vocabulary: Vocabulary, files: FileSpec, terms: Terms) -> Splits[str]:
    """`unseen_symbols` of the validation and test splits; for the training split, an empty string."""
    line = "line" if files.file is None else ""
    return Splits(
        "",
        unseen_symbols(splits.validation, vocabulary, files.names.validation, terms, line),
        unseen_symbols(splits.test, vocabulary, files.names.test, terms, line),
    )


def unseen_in_texts(splits: Splits[S], vocabulary: Vocabulary, files: FileSpec, terms: Terms) -> Splits[str]:
    """`unseen_in_files` for running texts, counting symbols instead of examples."""

    def line(blocks: Sequences, place: str) -> str:
        counts = Counter(chain.from_iterable(blocks))
        missing = Counter({symbol: counts[symbol] for symbol in vocabulary.unseen(counts)})
        share = f"{missing.total():,} of {counts.total():,} {terms.examples}"
        return _line(missing, place, terms, share) + _in_another_form(missing, vocabulary)

    return Splits("", line(splits.validation, files.names.validation), line(splits.test, files.names.test))


def label_hints(examples: Splits[list[Keyed]], files: FileSpec) -> dict[str, str]:
    """Lines about labels that training has no example of, and about labels that look the same."""
    labels = examples.map(lambda split: [str(one.answer) for one in split])
    file = str(files.file or files.train_file or files.test_file)
    return _unseen_labels_hint(labels, files) | label_forms_hint(chain(*labels), file)


def _unseen_labels_hint(labels: Splits[list[str]], files: FileSpec) -> dict[str, str]:
    """A line about the labels of a file that is split at random, if training has no example of them."""
    if files.file is None:  # then an unknown label is an error
        return {}
    known, others = set(labels.train), [*labels.validation, *labels.test]
    missing = Counter(label for label in others if label not in known)
    terms = Terms("label", "validation and test examples", "not learned")
    line = _line(missing, files.file, terms, f"{missing.total():,} of {len(others):,} {terms.examples}")
    return {"labels": line} if line else {}


def label_forms_hint(labels: Iterable[str], file: str) -> dict[str, str]:
    """A line if some labels differ only in their Unicode form; on a screen, they look the same."""
    forms = Counter(
        unicodedata.normalize("NFC", label)
        for label in set(labels)
        if len(label) <= _LONGEST_LABEL and not label.isascii()
    )
    several = sorted(label for label, count in forms.items() if count > 1)
    if not several:
        return {}
    more = f" and {len(several) - 1:,} more" if len(several) > 1 else ""
    return {
        "forms": f"{file}: the label {quoted(several[0], _LONGEST)}{more} is written in several Unicode "
        "forms, each of which counts as another label: convert the file to NFC"
    }


def _line(counts: Counter[str], place: str, terms: Terms, share: str) -> str:
    if not counts:
        return ""
    names = list(dict.fromkeys(_name(symbol) for symbol, _ in counts.most_common()))
    one = len(names) == 1
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return (
        f"{len(names):,} {terms.symbol}{'' if one else 's'} in {place} {terms.reason.format(s='s' * one)} "
        f"and {'is' if one else 'are'} {terms.effect}: {', '.join(names[:_NAMED])}{more} (in {share})"
    )


def _in_another_form(missing: Iterable[str], vocabulary: Vocabulary) -> str:
    """How many of the symbols occur in training once they are normalised; on a screen, both look the same."""
    for form in ("NFC", "NFD"):
        others = [other for one in missing if (other := unicodedata.normalize(form, one)) != one]
        known = sum(not (vocabulary.unseen([other]) and vocabulary.unseen(other)) for other in others)
        if known:
            return f"; in the Unicode form {form}, {known:,} of them do{'es' * (known == 1)}"
    return ""


def _name(symbol: str) -> str:
    """A symbol in quotes; a character that is invisible on its own is shown by its code point."""
    if len(symbol) == 1 and unicodedata.category(symbol)[0] in "CMZ" and symbol != " ":
        return f"U+{ord(symbol):04X}"
    return quoted(symbol[1:] if is_tag(symbol) else symbol, _LONGEST)
