"""Made-up training examples: words with the stem replaced (Anastasopoulos & Neubig 2019, 1908.05838)."""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import islice

from attention_lab.data.transduction import Example

SHORTEST = 3
"""Letters of the shortest stretch that counts as part of a stem (1908.05838, section 3)."""
MARGIN = 3
"""Letters of a stem that stay beside a change: they may decide it, as the last vowel in vowel harmony."""
TRIES = 20
"""How many examples are drawn for each that is needed, before there are none to be had."""


def hallucinate(
    train: Sequence[Example], count: int, seed: int, is_letter: Callable[[str], bool] = lambda symbol: True
) -> list[Example]:
    """Up to `count` new examples, each made from a training example by replacing the letters of its stem.

    The stem is every stretch of at least three letters that source and target have in common, one after the
    other. Its letters become random ones, drawn as often as they occur in training, the same on both sides;
    everything else stays, such as the tags and affixes. The paper keeps the first and last letter of a
    stretch; here the three letters beside a change stay, and none at a beginning or end that both share.

    Args:
        train: the training examples; nothing else is looked at.
        count: how many to make; fewer if few examples have a stem.
        seed: of the choices.
        is_letter: which symbols may be replaced and drawn.

    Returns:
        Examples that differ from those in `train` and from one another.
    """
    numbers = random.Random(seed)
    frequency = Counter(symbol for example in train for symbol in example.target if is_letter(symbol))
    letters, weights = list(frequency), list(frequency.values())
    stems = [replaceable(example.source, example.target, is_letter) for example in train]
    usable = [number for number, stem in enumerate(stems) if stem]
    known = {(tuple(example.source), tuple(example.target)) for example in train}

    def drawn() -> Iterator[Example]:
        """Examples with a stem of random letters, as many as there are tries."""
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


def replaceable(
    source: Sequence[str], target: Sequence[str], is_letter: Callable[[str], bool]
) -> list[tuple[int, int, int]]:
    """Where random letters may stand: start in the source, start in the target, and number of letters."""
    beginning = next((place for place, symbol in enumerate(source) if is_letter(symbol)), len(source))
    found = []
    for start, other, size in stretches(source, target, is_letter):
        before = 0 if (start, other) == (beginning, 0) else MARGIN
        after = 0 if (start + size, other + size) == (len(source), len(target)) else MARGIN
        if size > before + after:
            found.append((start + before, other + before, size - before - after))
    return found


def stretches(
    source: Sequence[str], target: Sequence[str], is_letter: Callable[[str], bool]
) -> list[tuple[int, int, int]]:
    """Where the stem is: start in the source, start in the target, and size of each common stretch.

    The longest common stretch, then the longest ones before and after it, and so on; only those of at least
    `SHORTEST` letters.
    """
    before = [symbol if is_letter(symbol) else None for symbol in source]
    blocks = SequenceMatcher(None, before, list(target), autojunk=False).get_matching_blocks()
    return [(block.a, block.b, block.size) for block in blocks if block.size >= SHORTEST]
