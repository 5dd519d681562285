import random
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_data import whole

from attention_lab.data import ListOps, Reverse
from attention_lab.data.synthetic.listops import NESTED, OPERATORS, SYMBOLS, Grammar, evaluate
from attention_lab.errors import LabError
from attention_lab.sizes import ClassificationSizes

SMALL = {"train_size": 300, "validation_size": 40, "test_size": 50}


def value(text: str) -> int:
    """The value, from the definition: the innermost brackets first, by rewriting the text."""
    tokens = text.split()
    while len(tokens) > 1:
        close = tokens.index("]")
        start = max(place for place in range(close) if tokens[place].startswith("["))
        digits = sorted(int(token) for token in tokens[start + 1 : close])
        assert len(digits) >= 2
        assert all(0 <= digit <= 9 for digit in digits)
        count = len(digits)
        worth = {
            "[MIN": digits[0],
            "[MAX": digits[-1],
            "[MED": (digits[(count - 1) // 2] + digits[count // 2]) // 2,
            "[SM": sum(digits) % 10,
        }[tokens[start]]
        tokens[start : close + 1] = [str(worth)]
    return int(tokens[0])


def depth(text: str) -> int:
    """How deep operators nest."""
    return max(text[:end].count("[") - text[:end].count("]") for end in range(len(text) + 1))


def most_arguments(text: str) -> int:
    counts, most = [0], 0
    for token in text.split():
        if token == "]":
            most = max(most, counts.pop())
        else:
            counts[-1] += 1
            if token.startswith("["):
                counts.append(0)
    assert counts == [1]
    return most


def texts(data: ListOps, part: int) -> list[str]:
    batch = whole(data.splits[part])
    return [
        " ".join(data.codec.token_labels(ids, int(length)))
        for ids, length in zip(batch.inputs, batch.lengths, strict=True)
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[MAX 2 9 [MIN 4 7 ] 0 ]", 9),
        ("[MIN 5 3 8 ]", 3),
        ("[MED 9 1 5 ]", 5),
        ("[MED 1 2 9 8 ]", 5),
        ("[MED 3 4 ]", 3),
        ("[SM 7 8 9 ]", 4),
        ("[SM [MAX 4 6 ] [SM 5 5 ] [MED 1 9 2 ] ]", 8),
        ("7", 7),
    ],
)
def test_values_by_hand(text: str, expected: int) -> None:
    assert evaluate(text.split()) == expected
    assert value(text) == expected


@given(st.lists(st.integers(0, 9), min_size=1))
def test_the_median_has_as_many_below_as_above(values: list[int]) -> None:
    middle = OPERATORS["[MED"](values)
    assert min(values) <= middle <= max(values)
    assert 2 * sum(one < middle for one in values) <= len(values)
    assert 2 * sum(one > middle + 1 for one in values) <= len(values)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"lengths": "grown"},
        {"max_depth": 2, "max_args": 12, "max_length": 14},
        {"max_depth": 3, "max_args": 3},
        {"min_length": 200, "max_length": 300},
    ],
)
def test_expressions_keep_to_the_options_and_their_labels_are_right(options: dict[str, int | str]) -> None:
    data = ListOps(**SMALL, **options)  # type: ignore[arg-type]
    data.setup()
    low, high = data.spec.min_length, data.spec.max_length
    for part in range(3):
        batch, lines = whole(data.splits[part]), texts(data, part)
        assert batch.labels.tolist() == [value(line) for line in lines]
        assert low <= int(batch.lengths.min()) <= int(batch.lengths.max()) <= high
        assert max(map(depth, lines)) <= data.spec.max_depth - 1
        assert max(map(most_arguments, lines)) <= data.spec.max_args


def test_every_operator_digit_and_label_occurs() -> None:
    data = ListOps(**SMALL)
    assert set(" ".join(texts(data, 0)).split()) == {*OPERATORS, "]", *"0123456789"}
    assert set(whole(data.splits[0]).labels.tolist()) == set(range(10))
    assert data.sizes == ClassificationSizes(classes=10, length=50, vocabulary=4 + 15)
    assert data.codec.encode(["[SM 1 2 ]"]).inputs[0].tolist() == [7, 10, 11, 8]


def test_no_label_is_common() -> None:
    data = ListOps(train_size=5000, validation_size=1, test_size=1)
    counts = Counter(whole(data.splits[0]).labels.tolist())
    assert max(counts.values()) < 0.18 * 5000
    assert min(counts.values()) > 0.06 * 5000


def test_uniform_lengths_are_uniform_and_grown_ones_mostly_short() -> None:
    sizes = {"train_size": 4000, "validation_size": 1, "test_size": 1, "min_length": 10, "max_length": 29}
    counts = torch.bincount(whole(ListOps(**sizes).splits[0]).lengths)[10:]  # type: ignore[arg-type]
    assert (counts - 200).abs().max() < 70  # five standard deviations
    grown = whole(ListOps(**sizes, lengths="grown").splits[0]).lengths  # type: ignore[arg-type]
    assert (grown < 15).float().mean() > 0.4


def grow(generator: random.Random, levels: int, max_args: int) -> list[str]:
    """An expression as the Long Range Arena grows it."""
    if levels == 1 or generator.random() > NESTED:
        return [str(generator.randrange(10))]
    arguments = [grow(generator, levels - 1, max_args) for _ in range(generator.randint(2, max_args))]
    return [generator.choice(list(OPERATORS)), *(token for tokens in arguments for token in tokens), "]"]


def test_chances_of_lengths_by_hand() -> None:
    # two levels, at most three arguments: a digit 3/4, two digits 1/8, three digits 1/8
    assert Grammar(9, 2, 3).chances.tolist() == [0, 0.75, 0, 0, 0.125, 0.125, 0, 0, 0, 0]
    # three levels, two arguments: a digit, or two trees of one level less, each 3/4 a digit and 1/4 a pair
    assert Grammar(10, 3, 2).chances.tolist() == pytest.approx(
        [0, 0.75, 0, 0, 0.25 * 9 / 16, 0, 0, 0.25 * 6 / 16, 0, 0, 0.25 / 16]
    )


@pytest.mark.long
def test_expressions_of_a_length_are_those_that_grow_to_it() -> None:
    generator, length, shapes = random.Random(0), 12, [Counter[str](), Counter[str]()]
    grammar, times = Grammar(20, 4, 4), 3000

    def shape(tokens: list[str] | tuple[str, ...]) -> str:
        return "".join("[" if token in OPERATORS else "]" if token == "]" else "." for token in tokens)

    for _ in range(times):
        shapes[0][shape(grammar.draw(length, generator))] += 1
    while shapes[1].total() < times:
        if len(tokens := grow(generator, 4, 4)) == length:
            shapes[1][shape(tokens)] += 1
    assert len(shapes[0]) > 10
    for one in shapes[0] | shapes[1]:
        counts = shapes[0][one], shapes[1][one]
        assert abs(counts[0] - counts[1]) <= 5 * sum(counts) ** 0.5


def test_expressions_are_all_different_and_depend_on_the_seed_alone() -> None:
    parts = ListOps(**SMALL).expressions()
    assert [len(part) for part in parts] == [300, 40, 50]
    assert len({expression for part in parts for expression in part}) == 390
    assert ListOps(**SMALL).expressions() == parts
    fewer = ListOps(**{**SMALL, "train_size": 3}).expressions()
    assert (fewer.validation, fewer.test) == (parts.validation, parts.test)
    assert ListOps(**SMALL, seed=1).expressions().test != parts.test


def test_a_small_space_is_shared_out_or_refused() -> None:
    # 4 operators on two digits: 400 expressions of four tokens
    parts = ListOps(train_size=200, validation_size=5, test_size=5, min_length=4, max_length=4).expressions()
    assert len({expression for part in parts for expression in part}) == 210
    with pytest.raises(LabError, match=r"500 different .* hardly more than 400 with data\.min_length=4 and"):
        ListOps(train_size=480, validation_size=10, test_size=10, min_length=4, max_length=4).setup()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_length": 3}, r"data\.min_length=3: give a whole number of at least 4"),
        ({"max_length": 4}, r"data\.max_length=4: give a whole number of at least 5"),
        ({"max_args": 1}, r"data\.max_args=1: give a whole number of at least 2"),
        ({"max_depth": 1}, r"data\.max_depth=1: give a whole number of at least 2"),
        ({"test_size": 0}, r"data\.test_size=0"),
        ({"lengths": "long"}, r"data\.lengths=long: choose one of uniform, grown"),
        (
            {"max_depth": 2, "min_length": 20},
            r"no expression with data\.max_depth=2 and data\.max_args=10 has a length between "
            r"data\.min_length=20 and data\.max_length=50",
        ),
    ],
)
def test_bad_options(options: dict[str, int], message: str) -> None:
    with pytest.raises(LabError, match=message):
        ListOps(**options).setup()


def test_a_given_codec_is_kept_if_it_fits() -> None:
    first, second, longer = ListOps(**SMALL), ListOps(**SMALL, max_length=30), ListOps(**SMALL, max_length=60)
    first.setup()
    second.codec = longer.codec = first.codec
    second.setup()
    assert second.sizes.length == 50
    with pytest.raises(LabError, match=r"data\.max_length=60: the model was made for at most 50"):
        longer.setup()
    other = ListOps(**SMALL)
    other.codec = first.codec.from_state({**first.codec.state(), "labels": ["a", "b"]})
    with pytest.raises(LabError, match="the model was not trained on data=listops"):
        other.setup()
    reverse = Reverse(train_size=1, validation_size=1, test_size=1)
    reverse.setup()
    other.codec = reverse.codec  # type: ignore[assignment]
    with pytest.raises(LabError, match="TransductionCodec"):
        other.setup()


def test_ids_are_those_of_the_codec() -> None:
    ids = ListOps(**SMALL).expressions().test[0]
    data = ListOps(**SMALL)
    assert texts(data, 2)[0] == " ".join(map(SYMBOLS.symbol, ids))
