"""Match labels to the rows and columns of any attention, by its size and, if that is ambiguous, its name."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

_ENCODER = re.compile(r"encoder", re.IGNORECASE)
_DECODER = re.compile(r"decoder", re.IGNORECASE)
_CROSS = re.compile(r"cross|encoder_attn|encdec", re.IGNORECASE)


Side = Sequence[str | None]
"""A label for each position, None for padding."""


class Labels(NamedTuple):
    """The labels of one example.

    Attributes:
        queries: labels of the queries: the target of an encoder-decoder, or all positions; None if unknown.
        keys: labels of the keys; None if they are the same as the queries'.
        strict: whether an attention of another size is an error; if not, its rows or columns are numbered.
    """

    queries: Side | None
    keys: Side | None
    strict: bool = True


def as_labels(given: Any, name: str) -> Side | None:
    """Convert labels to texts.

    Raises:
        ValueError: they are not a list.
    """
    if given is None:
        return None
    if hasattr(given, "tolist"):  # a tensor or an array
        given = given.tolist()
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ValueError(
            f"{name} must be labels, a list of texts such as ['a', 'cat'], not {type(given).__name__}"
        )
    return [label if label is None or isinstance(label, str) else str(label) for label in given]


def labels_of_examples(queries: Any, keys: Any) -> list[Labels]:
    """The labels of each example; a single entry applies to all."""
    several = [_nested(queries), _nested(keys)]
    if not any(several):
        return [Labels(as_labels(queries, "queries"), as_labels(keys, "keys"))]
    count = max(len(side) for side, nested in zip((queries, keys), several, strict=True) if nested)
    sides = [
        list(side) if nested else [side] * count
        for side, nested in zip((queries, keys), several, strict=True)
    ]
    if len(sides[0]) != len(sides[1]):
        raise ValueError(
            f"there are query labels for {len(sides[0])} examples, but key labels for {len(sides[1])}"
        )
    named = (
        [as_labels(one, name) for one in side] for side, name in zip(sides, ("queries", "keys"), strict=True)
    )
    return _padded([Labels(*pair) for pair in zip(*named, strict=True)])


def _nested(labels: Any) -> bool:
    """Whether the labels are lists, one for each example."""
    return (
        isinstance(labels, Sequence)
        and not isinstance(labels, str)
        and len(labels) > 0
        and all(isinstance(one, Sequence) and not isinstance(one, str) for one in labels)
    )


def _padded(examples: Sequence[Labels]) -> list[Labels]:
    """The labels of several examples, padded to the length of the longest."""

    def longest(sides: Sequence[Side | None]) -> int:
        return max((len(side) for side in sides if side is not None), default=0)

    rows, columns = longest([one.queries for one in examples]), longest([one.keys for one in examples])

    def filled(side: Side | None, size: int) -> Side | None:
        return None if side is None else [*side, *[None] * (size - len(side))]

    return [Labels(filled(one.queries, rows), filled(one.keys, columns), one.strict) for one in examples]


def as_text(labels: Labels) -> str:
    """The input as text, with subwords joined and their marks removed."""
    side = labels.keys if labels.keys is not None else labels.queries
    text = " ".join(label for label in side or () if label is not None)
    return re.sub(r" ?[Ġ▁]", " ", text.replace(" ##", "")).strip()


def labels_of(module: str, rows: int, columns: int, labels: Labels) -> tuple[Side, Side]:
    """Choose labels for the rows and columns of an attention.

    If there are as many labels of queries as of keys, the module's name decides: an encoder gets the keys'
    labels on both sides, a decoder the queries', and any other module, such as cross attention, both.

    Raises:
        ValueError: no labels match the size of a side.
    """
    queries, keys, strict = labels
    down, across = (queries, keys), (keys, queries)  # the first that fits a side is chosen
    if queries is not None and keys is not None and not _CROSS.search(module):
        in_encoder, in_decoder = _ENCODER.search(module), _DECODER.search(module)
        if in_encoder and not in_decoder:
            down = keys, queries
        if (in_encoder or in_decoder) and rows == columns and len(queries) == len(keys):
            across = down
    return _side(module, "rows", rows, down, strict), _side(module, "columns", columns, across, strict)


def _side(module: str, side: str, size: int, candidates: Sequence[Side | None], strict: bool) -> Side:
    given = [labels for labels in candidates if labels is not None]
    for labels in given:
        if len(labels) == size:
            return list(labels)
    if not given or not strict:
        return [str(number) for number in range(1, size + 1)]
    counts = " and ".join(str(len(labels)) for labels in given)
    given_labels = f"{counts} label{'' if counts == '1' else 's'}"
    raise ValueError(f"{module or 'the attention'} has {size} {side}, but was given {given_labels}")


def for_module(given: Any, module: str) -> Any:
    """The value for one module, if a mapping by module name is given; otherwise the value itself."""
    return given.get(module) if isinstance(given, Mapping) else given
