"""Synthetic training examples: words with a replaced stem (Anastasopoulos & Neubig 2019, 1908.05838)."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from attention_lab.data.inflection.letter_alignment import common_stretches, is_letter
from attention_lab.data.transduction import Example

SHORTEST = 3
"""Number of letters in the shortest stretch that counts as part of a stem (1908.05838, section 3)."""
MARGIN = 3
"""Stem letters kept next to a change, because they may determine it, like the last vowel in vowel harmony."""
TRIES = 20
"""Number of examples drawn for each one needed, before giving up."""


def hallucinate(train: Sequence[Example], count: int, seed: int) -> list[Example]:
    """Up to `count` new examples, each made from a training example by replacing the letters of its stem.

    The stem consists of all stretches of at least three letters that source and target have in common, in the
    same order. Its letters are replaced by random ones, the same on both sides, drawn with their frequency in
    training. Everything else stays, such as tags and affixes. The paper keeps the first and last letter of a
    stretch. Here the three letters next to a change stay, but no letters at a beginning or end that source
    and target share.

    Args:
        train: the training examples; no other data is used.
        count: number of examples to make; fewer are made if few examples have a stem.
        seed: seed of the random choices.

    Returns:
        Examples that differ from those in `train` and from one another.
    """
    numbers = random.Random(seed)
    frequency = Counter(symbol for example in train for symbol in example.target if is_letter(symbol))
    letters, weights = list(frequency), list(frequency.values())
    stems = [replaceable(example.source, example.target) for example in train]
    usable = [number for number, stem in enumerate(stems) if stem]
    known = {(tuple(example.source), tuple(example.target)) for example in train}

    def drawn() -> Iterator[Example]:
        """Examples with a stem of random letters, one for each attempt."""
        for _ in range(TRIES * count if usable else 0):
            number = numbers.choice(usable)
            source, target = list(train[number].source), list(train[number].target)
            for start, other, size in stems[number]:
                inside = numbers.choices(letters, weights, k=size)
                source[start : start + size] = target[other : other + size] = inside
            made = (tuple(source), tuple(target))
            if made not in known:
                known.add(made)
                yield Example(*made)

    return list(islice(drawn(), count))


def replaceable(source: Sequence[str], target: Sequence[str]) -> list[tuple[int, int, int]]:
    """Where letters may be replaced: start in the source, start in the target, and number of letters."""
    beginning = next((position for position, symbol in enumerate(source) if is_letter(symbol)), len(source))
    found = []
    for start, other, size in stretches(source, target):
        before = 0 if (start, other) == (beginning, 0) else MARGIN
        after = 0 if (start + size, other + size) == (len(source), len(target)) else MARGIN
        if size > before + after:
            found.append((start + before, other + before, size - before - after))
    return found


def stretches(source: Sequence[str], target: Sequence[str]) -> list[tuple[int, int, int]]:
    """The common stretches that form the stem: start in the source, start in the target, and size of each.

    See `common_stretches`; only those of at least `SHORTEST` letters.
    """
    before = [symbol if is_letter(symbol) else None for symbol in source]
    blocks = common_stretches(before, target)
    return [(block.a, block.b, block.size) for block in blocks if block.size >= SHORTEST]
