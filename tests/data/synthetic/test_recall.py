import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_data import whole

from attention_lab.data import ListOps, Recall
from attention_lab.data.synthetic.recall_split import Drawn, Layout, RecallSplit
from attention_lab.errors import LabError
from attention_lab.sizes import ClassificationSizes
from attention_lab.special_symbols import PAD

SMALL = {"train_size": 40, "validation_size": 10, "test_size": 12}


def texts(data: Recall, split: RecallSplit) -> list[str]:
    assert data.codec.tokenizer is not None
    batch = whole(split)
    return [
        " ".join(data.codec.tokenizer.labels(row[:length]))
        for row, length in zip(batch.inputs, batch.lengths.tolist(), strict=True)
    ]


def answers(text: str) -> list[int]:
    """The answers, from the definition."""
    known = dict(token.split("=") for token in text.split() if "=" in token)
    return [int(known[token[:-1]]) for token in text.split() if token.endswith("?")]


@pytest.mark.parametrize(
    ("distance", "text"),
    [
        (None, "k3=1 k0=2 . . . . k0? k3?"),
        (4, "k3=1 k0=2 . . . . k0? k3?"),
        (1, ". . . k3=1 k0=2 . k0? k3?"),
        (0, ". . . . k3=1 k0=2 k0? k3?"),
    ],
)
def test_an_example_is_written_by_hand(distance: int | None, text: str) -> None:
    layout = Layout(4, distance)
    drawn = Drawn(*(torch.tensor([row]).numpy() for row in ([3, 0], [1, 2], [1, 0])))
    vocabulary = layout.vocabulary()
    ids = layout.token_ids(drawn, torch.tensor([8]))
    assert ids.tolist() == [vocabulary.ids(text.split())]
    assert [vocabulary.symbol(number) for number in ids[0].tolist()] == text.split()
    batch = RecallSplit(drawn, torch.tensor([8]), layout)[torch.tensor([0])]
    assert batch.labels.tolist() == [[2, 1]] == [answers(text)]


def test_shorter_sequences_are_padded_behind_their_queries() -> None:
    drawn = Drawn(*(torch.tensor([row, row]).numpy() for row in ([3, 0], [1, 2], [1, 0])))
    layout = Layout(4, None)
    ids = layout.token_ids(drawn, torch.tensor([8, 5]))
    short = layout.vocabulary().ids(["k3=1", "k0=2", ".", "k0?", "k3?"])
    assert ids[1].tolist() == [*short, PAD, PAD, PAD]


@pytest.mark.long
@given(
    pairs=st.integers(1, 6),
    queries=st.integers(3, 6),
    filler=st.integers(0, 30),
    near=st.none() | st.integers(0, 30),
    epochs=st.integers(0, 4),
    seed=st.integers(0, 3),
)
def test_every_part_is_as_the_options_say(
    pairs: int, queries: int, filler: int, near: int | None, epochs: int, seed: int
) -> None:
    length = pairs + queries + filler
    distance = None if near is None else min(near, filler)
    data = Recall(**SMALL, length=length, distance=distance, pairs=pairs, queries=queries,
                  symbols=8, short_epochs=epochs, seed=seed)  # fmt: skip
    for split in data.splits:
        batch = whole(split)
        for text, labels in zip(texts(data, split), batch.labels.tolist(), strict=True):
            assert answers(text) == labels
            given = re.findall(r"k\d+(?==)", text)
            assert len(set(given)) == len(given) == pairs
            assert len(text.split()[-queries:]) == text.count("?") == queries
    for split in data.splits[1:]:
        for text in texts(data, split):
            tokens = text.split()
            between = tokens[max(i for i, token in enumerate(tokens) if "=" in token) + 1 : -queries]
            assert between == ["."] * (filler if distance is None else distance)
            assert len(tokens) == length
    without = [
        [" ".join(text.replace(".", "").split()) for text in texts(data, split)] for split in data.splits
    ]
    held_out = [*without[1], *without[2]]
    assert len(set(held_out)) == len(held_out) == 22
    assert not set(held_out) & set(without[0])


def test_sizes_and_codec() -> None:
    data = Recall(**SMALL, length=20, symbols=5, pairs=3, queries=4)
    data.setup()
    assert data.sizes == ClassificationSizes(classes=5, length=20, vocabulary=4 + 1 + 5 + 25, answers=4)
    batch = data.codec.encode(["k3=1 k0=2 . k0? k3? k0? k3?"])
    assert batch.labels.tolist() == [[-1] * 4]
    assert data.codec.decode([2, 1]) == "2 1"
    with pytest.raises(LabError, match="input 1: 2 tokens, too few: the model answers at the last 4"):
        data.codec.encode(["k0? k3?"])


def test_validation_and_test_do_not_change_with_what_is_trained_on() -> None:
    one = Recall(**SMALL, length=30)
    other = Recall(**{**SMALL, "train_size": 7}, length=30, short_epochs=2)
    assert texts(one, one.splits.test) != []
    one.setup(), other.setup()
    assert texts(one, one.splits.test) == texts(other, other.splits.test)
    assert texts(one, one.splits.validation) == texts(other, other.splits.validation)
    changed = Recall(**SMALL, length=30, seed=1)
    changed.setup()
    assert texts(one, one.splits.test) != texts(changed, changed.splits.test)


def test_sequences_grow_and_a_batch_keeps_its_tokens() -> None:
    data = Recall(**SMALL, length=160, pairs=4, queries=6, short_epochs=4, batch_size=2)
    assert data.short_lengths() == [10, 20, 40, 80]
    seen: list[torch.Tensor] = []
    loader = data.train_dataloader()
    for epoch, length in enumerate([10, 20, 40, 80, 160, 160]):
        loader.sampler.set_epoch(epoch)  # type: ignore[attr-defined]
        batches = list(loader)
        assert len(batches) == len(loader) == 20
        assert all(batch.inputs.shape == (2 * 160 // length, length) for batch in batches)
        if epoch < 5:
            seen += [row for batch in batches for row in batch.inputs]
    assert len(seen) == len(data.splits.train) == 40 * (16 + 8 + 4 + 2 + 1)


def test_an_interrupted_epoch_resumes_with_the_remaining_batches() -> None:
    data = Recall(**SMALL, length=40, short_epochs=1, batch_size=10)
    first, second = data.train_dataloader(), data.train_dataloader()
    second.sampler.skip(3)  # type: ignore[attr-defined]
    (left,) = second
    assert torch.equal(left.inputs, list(first)[3].inputs)


def test_devices_share_the_batches() -> None:
    data = Recall(**SMALL, length=40, short_epochs=1, batch_size=5)
    whole_epoch = [batch.inputs for batch in data.train_dataloader()]
    shares = []
    for rank in range(2):
        data.trainer = type("Two", (), {"global_rank": rank, "world_size": 2})()  # type: ignore[assignment]
        shares.append([batch.inputs for batch in data.train_dataloader()])
    dealt = [one for step in zip(*shares, strict=True) for one in step]
    assert all(torch.equal(one, other) for one, other in zip(dealt, whole_epoch, strict=True))


def test_the_number_of_different_examples_may_exceed_every_float() -> None:
    data = Recall(1, 1, 1, length=400, pairs=200, queries=200, symbols=200)
    data.setup()
    assert [len(part) for part in data.splits] == [1, 1, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length": 15}, "data.length=15: give a whole number of at least 16"),
        ({"pairs": 0}, "data.pairs=0: give a whole number of at least 1"),
        ({"queries": 0}, "data.queries=0: give a whole number of at least 1"),
        ({"pairs": 8, "symbols": 7}, "data.symbols=7: give a whole number of at least 8"),
        ({"symbols": 10**9}, "data.symbols=1000000000: give at most 256"),
        ({"seed": -1}, "data.seed=-1: give a whole number of at least 0"),
        ({"short_epochs": -1}, "data.short_epochs=-1: give a whole number of at least 0"),
        ({"distance": -1}, "data.distance=-1: give a whole number of at least 0"),
        ({"length": 20, "distance": 5}, "data.distance=5: of data.length=20, 8 pairs and 8 queries leave 4 "),
        ({"train_size": 0}, "data.train_size=0: give"),
        ({"pairs": 1, "queries": 1, "symbols": 5}, "take more than half of all 25 different examples"),
    ],
)
def test_wrong_options_are_reported_in_one_line(options: dict[str, int], message: str) -> None:
    with pytest.raises(LabError) as caught:
        Recall(**{**SMALL, **options}).setup()  # type: ignore[arg-type]
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_model_goes_on_with_shorter_sequences_of_its_own_symbols() -> None:
    first = Recall(**SMALL, length=40)
    first.setup()
    shorter = Recall(**SMALL, length=30)
    shorter.codec = first.codec
    shorter.setup()
    assert shorter.sizes == first.sizes
    for options, message in [
        ({"length": 50}, "data.length=50: the model was made for at most 40"),
        ({"symbols": 17}, "the model was not trained on data=recall with data.symbols=17"),
        ({"queries": 7}, "the model was not trained on data=recall with data.symbols=16 and data.queries=7"),
    ]:
        other = Recall(**{**SMALL, "length": 40, **options})  # type: ignore[arg-type]
        other.codec = first.codec
        with pytest.raises(LabError, match=message):
            other.setup()
    expressions = ListOps(train_size=5, validation_size=2, test_size=2)
    expressions.setup()
    other = Recall(**SMALL, length=40)
    other.codec = expressions.codec
    with pytest.raises(LabError, match="not trained on data=recall"):
        other.setup()
