"""Read the words of a text: the letters that a model knows, and abbreviations that are spelled out."""

import re
import unicodedata
from collections.abc import Set

from attention_lab.console_text import printable
from attention_lab.errors import LabError

LONGEST = 100
"""Maximum number of letters of a word; the longest in an English dictionary have fewer than 50."""
_MOST = 1000  # characters of a word, with accents and punctuation
SPELLED = "."
"""Suffix of a part that is the name of a letter, as in `u.`."""
_APOSTROPHES = str.maketrans(dict.fromkeys("\u2018\u2019\u02bc\u2032\uff07\u00b4`", "'"))
_PLAIN = {"æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "th", "þ": "th", "ß": "ss"}
_SPOKEN = "&@#%"  # punctuation that stands for a word
_DOTTED = re.compile(r"[^.](\.[^.])+\.?")
_VOWELS = frozenset("aeiouy")


def word_parts(word: str, known: Set[str]) -> list[str]:
    """The parts of a word that a model reads one by one; none if it is only punctuation.

    Accents are removed and upper case becomes lower case unless the model knows them. Hyphens and other
    punctuation separate parts. Abbreviations with dots (`U.S.`), or in capitals without a vowel (`TV`), are
    spelled out: each letter is a part that ends in `SPELLED`.

    Args:
        word: a word without spaces.
        known: the letters that the model knows.

    Raises:
        LabError: the word has digits, symbols or letters that the model does not know, or is too long.
    """
    if len(word) > _MOST:
        raise LabError(f"it has {len(word)} characters, but at most {_MOST} can be read")
    text = unicodedata.normalize("NFC", word).translate(_APOSTROPHES)
    plain = "".join(_plain(character, known) for character in text)
    if len(plain) > LONGEST:
        raise LabError(f"it has {len(plain)} letters, but at most {LONGEST} can be read")
    parts: list[str] = []
    for chunk in plain.split():
        dotted = bool(_DOTTED.fullmatch(chunk))
        for part in chunk.split("."):
            letters = _without_quotes(part)
            if not letters.strip("'"):
                continue
            capitals = text.isupper() and len(letters) > 1 and not _VOWELS & set(letters)
            if dotted or (capitals and letters.isalpha()):
                parts += [letter + SPELLED for letter in letters]
            else:
                parts.append(letters)
    return parts


def _plain(character: str, known: Set[str]) -> str:
    """The letters that a character stands for: known ones, a dot, a space for a separator, or nothing."""
    lower, category = character.lower(), unicodedata.category(character)
    if lower in known or character == SPELLED:
        return lower
    if category in ("Mn", "Cf"):  # accents that belong to no letter, and invisible characters
        return ""
    if (category[0] == "P" and character not in _SPOKEN) or category in ("Sk", "Zs"):
        return " "
    if category[0] == "L":
        decomposed = unicodedata.normalize("NFKD", lower)
        found = _PLAIN.get(lower) or "".join(one for one in decomposed if unicodedata.category(one) != "Mn")
        if found and set(found.lower()) <= known:
            return found.lower()
    if category[0] == "N":
        raise LabError("digits cannot be read; write numbers as words")
    shown = printable(character)
    if character in _SPOKEN:
        raise LabError(f"{shown} cannot be read; write it as a word")
    raise LabError(f"{shown} (U+{ord(character):04X}) cannot be read; the model knows {_listed(known)}")


def _without_quotes(part: str) -> str:
    """Strip the apostrophes on both sides that are quotation marks."""
    while len(part) > 1 and part[0] == part[-1] == "'":
        part = part[1:-1]
    return part


def _listed(known: Set[str]) -> str:
    alphabet = frozenset("abcdefghijklmnopqrstuvwxyz")
    others = sorted(known - alphabet if alphabet <= known else known)
    return printable("".join((["a-z "] if alphabet <= known else []) + others), 40).strip()
