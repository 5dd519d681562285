"""Align each letter of a form with a letter of its lemma, as far as equal letters show it."""

from collections.abc import Sequence
from difflib import Match, SequenceMatcher
from itertools import pairwise

from attention_lab.data.reading.vocabulary import is_tag

LONGEST = 100
"""Maximum length of words aligned with words of the same length; the time is cubic."""

MOVED = 3
"""Letters in the shortest stretch that may move past another, like the prefix of a German verb."""


def is_letter(symbol: str) -> bool:
    """Whether a symbol is a letter, not a tag or a space."""
    return not is_tag(symbol) and not symbol.isspace()


def align_letters(source: Sequence[str], target: Sequence[str]) -> list[int]:
    """The source position of each target symbol, -1 if equal letters do not show one.

    First the longest common stretch is aligned, then the longest ones before and after it, and so on
    (Ratcliff and Obershelp 1988). The symbols between two such stretches, such as a changed vowel, are
    aligned one to one if both sides have equally many. Stretches of at least three letters that moved come
    last. Texts that are too long to be words are not aligned; see `common_stretches`.

    Args:
        source: the symbols of the source: letters, and others such as tags.
        target: the letters of the form.
    """
    letters: list[str | None] = [symbol if is_letter(symbol) else None for symbol in source]
    first = next((position for position, symbol in enumerate(letters) if symbol is not None), len(letters))
    positions = [-1] * len(target)
    blocks = common_stretches(letters, target)
    if not blocks:
        return positions
    ends = [(first, 0, 0), *((block.a, block.b, block.size) for block in blocks)]
    for start, other, size in ends:
        positions[other : other + size] = range(start, start + size)
    for (start, other, size), (later, after, _) in pairwise(ends[:-1]):
        if later - (start + size) == after - (other + size):
            positions[other + size : after] = range(start + size, later)
    _align_moved(letters, target, positions)
    return positions


def common_stretches(source: Sequence[str | None], target: Sequence[str]) -> list[Match]:
    """The longest common stretch, then the longest ones before and after it, and so on; an empty one is last.

    None at all if source times target is more than `LONGEST` squared.
    """
    if len(source) * len(target) > LONGEST**2:
        return []
    return SequenceMatcher(None, source, list(target), autojunk=False).get_matching_blocks()


def _align_moved(letters: list[str | None], target: Sequence[str], positions: list[int]) -> None:
    """Align the longest stretches that are still unaligned on both sides, in any order."""
    used = {position for position in positions if position >= 0}
    free_source = [None if position in used else symbol for position, symbol in enumerate(letters)]
    free_target = ["" if positions[position] >= 0 else symbol for position, symbol in enumerate(target)]
    while True:
        match = SequenceMatcher(None, free_source, free_target, autojunk=False).find_longest_match()
        if match.size < MOVED:
            return
        for offset in range(match.size):
            positions[match.b + offset] = match.a + offset
            free_source[match.a + offset], free_target[match.b + offset] = None, ""
