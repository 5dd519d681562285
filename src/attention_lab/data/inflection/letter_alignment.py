"""Which letter of a lemma each letter of its form comes from, as far as equal letters tell."""

from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from itertools import pairwise

MOVED = 3
"""Letters of the shortest stretch that may have moved past another, as the prefix of a German verb."""


def align_letters(
    source: Sequence[str], target: Sequence[str], is_letter: Callable[[str], bool]
) -> list[int]:
    """The source position of each target symbol, -1 where equal letters do not tell.

    First the longest common stretch, then the longest before and after it, and so on (Ratcliff and Obershelp
    1988). What stays between two such stretches is aligned one to one if it has as many symbols on both
    sides, such as a changed vowel. Stretches of at least three letters that moved are found last.

    Args:
        source: the symbols of the source: letters, and others such as tags.
        target: the letters of the form.
        is_letter: which symbols of the source are letters.
    """
    letters: list[str | None] = [symbol if is_letter(symbol) else None for symbol in source]
    first = next((place for place, symbol in enumerate(letters) if symbol is not None), len(letters))
    positions = [-1] * len(target)
    blocks = SequenceMatcher(None, letters, list(target), autojunk=False).get_matching_blocks()
    ends = [(first, 0, 0), *((block.a, block.b, block.size) for block in blocks)]
    for start, other, size in ends:
        positions[other : other + size] = range(start, start + size)
    for (start, other, size), (later, after, _) in pairwise(ends[:-1]):
        if later - (start + size) == after - (other + size):
            positions[other + size : after] = range(start + size, later)
    _align_moved(letters, target, positions)
    return positions


def _align_moved(letters: list[str | None], target: Sequence[str], positions: list[int]) -> None:
    """Align the longest stretches that are free on both sides, whatever their order."""
    used = {place for place in positions if place >= 0}
    free_source = [None if place in used else symbol for place, symbol in enumerate(letters)]
    free_target = ["" if positions[place] >= 0 else symbol for place, symbol in enumerate(target)]
    while True:
        match = SequenceMatcher(None, free_source, free_target, autojunk=False).find_longest_match()
        if match.size < MOVED:
            return
        for offset in range(match.size):
            positions[match.b + offset] = match.a + offset
            free_source[match.a + offset], free_target[match.b + offset] = None, ""
