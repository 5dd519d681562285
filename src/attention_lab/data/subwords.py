"""Subwords: byte-pair encoding (1508.07909, section 3.2), learned and applied by Hugging Face's `tokenizers`.

The result of learning is an alphabet and a list of merges, `"a b"` for the pieces a and b, in the order in
which they are applied. `▁` at the beginning of a word stands for a space, so that joining the pieces
restores the text.
"""

import json
import os
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from typing import Any

from attention_lab.errors import LabError

SPACE = "▁"


def learn_pieces(texts: Iterable[str], size: int, option: str) -> tuple[str, list[str]]:
    """The alphabet and the merges of at most `size` pieces, learned from texts.

    Args:
        texts: the texts of the training split alone.
        size: number of characters and merged pieces; fewer if the texts have no more pairs to merge.
        option: name of the option for error messages.

    Raises:
        LabError: `tokenizers` is not installed, or the texts have more than `size` characters.
    """
    tokenizers = _library(option)
    learner = tokenizers.Tokenizer(tokenizers.models.BPE())
    learner.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace(replacement=SPACE)
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=size, show_progress=False, special_tokens=[])
    learner.train_from_iterator(texts, trainer)
    learned = json.loads(learner.to_str())["model"]
    alphabet = "".join(sorted(piece for piece in learned["vocab"] if len(piece) == 1))
    if len(alphabet) > size:
        raise LabError(
            f"data.subwords={size}: the training texts have {len(alphabet)} different characters; choose more"
        )
    pairs = (pair.split(" ") if isinstance(pair, str) else pair for pair in learned["merges"])
    return alphabet, [" ".join(pair) for pair in pairs]


def check_pieces(alphabet: object, merges: object) -> None:
    """Raise LabError unless these are characters, and distinct merges of them and of earlier merges."""
    if not isinstance(alphabet, str) or not isinstance(merges, list):
        raise LabError("its subwords are not an alphabet and a list of merges")
    known, seen = set(alphabet) - {" "}, set()  # a space separates the pieces of a merge
    for merge in merges:
        if not isinstance(merge, str) or merge in seen:
            raise LabError(f"its subwords have the merge {str(merge)[:40]!r} twice, or it is not text")
        left, _, right = merge.partition(" ")
        if left not in known or right not in known:
            raise LabError(f"its subwords have the merge {merge[:40]!r} of pieces that are not among them")
        known.add(left + right)
        seen.add(merge)


def pieces_of(alphabet: str, merges: Sequence[str]) -> list[str]:
    """All pieces, sorted."""
    return sorted({*alphabet, *(merge.replace(" ", "", 1) for merge in merges)})


class Splitter:
    """Splits texts into pieces; a character outside the alphabet is a piece of its own.

    Args:
        alphabet: see `learn_pieces`.
        merges: see `learn_pieces`.

    Raises:
        LabError: `tokenizers` is not installed.
    """

    def __init__(self, alphabet: str, merges: Sequence[str]) -> None:
        tokenizers = _library("a model that reads subwords")
        numbers = {piece: number for number, piece in enumerate(pieces_of(alphabet, merges))}
        unknown = "<unk>"
        while unknown in numbers:
            unknown += ">"
        self._unknown = numbers[unknown] = len(numbers)
        self._splitter = tokenizers.Tokenizer(
            tokenizers.models.BPE(
                numbers,
                [tuple(merge.split(" ")) for merge in merges],
                unk_token=unknown,
            )
        )
        self._splitter.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace(replacement=SPACE)

    def __call__(self, text: str) -> tuple[str, ...]:
        """The pieces of a text."""
        found = self._splitter.encode(text)
        rows = zip(found.ids, found.tokens, found.offsets, strict=True)
        return tuple(
            text[start:end] if number == self._unknown else piece for number, piece, (start, end) in rows
        )


def join(pieces: Iterable[str]) -> str:
    """The text that the pieces form."""
    return "".join(pieces).replace(SPACE, " ").strip(" ")


def check_tokenizers(option: str) -> None:
    """Raise LabError if `tokenizers` is not installed."""
    if find_spec("tokenizers") is None:
        raise LabError(f"{option} needs the package tokenizers: pip install -e '.[text]'")


def _library(needed_by: str) -> Any:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # its threads would not survive a fork
    check_tokenizers(needed_by)
    import tokenizers
    import tokenizers.models
    import tokenizers.pre_tokenizers
    import tokenizers.trainers

    return tokenizers
