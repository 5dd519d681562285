import pytest
from small_data import whole

from attention_lab.data import Copy, Repeat, Reverse, Sort, ToyTransduction, TransductionBatch
from attention_lab.errors import LabError
from attention_lab.sizes import TransductionSizes
from attention_lab.special_symbols import EOS, PAD

SMALL = {"train_size": 300, "validation_size": 40, "test_size": 50}


@pytest.mark.parametrize(
    ("task", "text", "target", "alignment"),
    [
        (Reverse, "bcab", "bacb", [3, 2, 1, 0]),
        (Copy, "bcab", "bcab", [0, 1, 2, 3]),
        (Sort, "bcab", "abbc", [2, 0, 3, 1]),
        (Repeat, "bcad", "bbcccad", [0, 0, 1, 1, 1, 2, 3]),
    ],
)
def test_the_tasks(task: type[ToyTransduction], text: str, target: str, alignment: list[int]) -> None:
    origins = task().origins(text)
    assert origins == alignment
    assert "".join(text[origin] for origin in origins) == target


@pytest.mark.parametrize("task", [Reverse, Copy, Sort, Repeat])
def test_the_alignment_says_where_each_symbol_is_from(task: type[ToyTransduction]) -> None:
    batch = whole(task(**SMALL).splits[0])
    aligned = batch.alignment >= 0
    assert batch.source.gather(1, batch.alignment.clamp(min=0))[aligned].equal(batch.target[aligned])
    assert aligned.equal((batch.target != PAD) & (batch.target != EOS))
    assert batch.source_lengths.equal(batch.target_lengths) != (task is Repeat)
    assert batch.references[:, 0].equal(batch.target)
    ends = batch.source.gather(1, batch.source_lengths.unsqueeze(1) - 1)
    assert (ends == EOS).all()
    assert set(batch.source_lengths.tolist()) == set(range(4, 12))


def texts(data: ToyTransduction) -> list[list[str]]:
    data.setup()
    return [[data.codec.source.decode(ids) for ids in whole(data.splits[part]).source] for part in range(3)]


def test_parts_are_disjoint_and_deterministic() -> None:
    train, validation, test = texts(Reverse(**SMALL))
    assert [len(train), len(validation), len(test)] == [300, 40, 50]
    assert len({*validation, *test}) == 90
    assert not {*validation, *test} & {*train}
    assert texts(Reverse(**SMALL)) == [train, validation, test]
    assert texts(Reverse(**{**SMALL, "train_size": 3}))[1:] == [validation, test]
    assert texts(Reverse(**SMALL, seed=1))[2] != test


def test_a_small_space_is_shared_out() -> None:
    train, validation, test = texts(
        Copy(train_size=100, validation_size=1, test_size=1, min_length=1, max_length=2, vocabulary=2)
    )
    assert not {*validation, *test} & {*train}
    assert {*validation, *test, *train} == {"a", "b", "aa", "ab", "ba", "bb"}


def test_too_small_a_space_is_refused() -> None:
    with pytest.raises(LabError, match=r"data\.test_size=2 take more than half of all 6 different examples"):
        Copy(test_size=2, validation_size=2, min_length=1, max_length=2, vocabulary=2).setup()


def test_bad_options() -> None:
    with pytest.raises(LabError, match=r"data\.max_length=2: give a whole number of at least 3"):
        Sort(max_length=2)
    with pytest.raises(LabError, match=r"data\.vocabulary=0"):
        Sort(vocabulary=0)
    with pytest.raises(LabError, match=r"data\.test_size=0"):
        Sort(test_size=0)


def test_many_symbols_have_names_of_two_letters() -> None:
    data = Copy(**SMALL, vocabulary=30)
    data.setup()
    assert data.symbols[-4:] == ["ba", "bb", "bc", "bd"]
    assert data.sizes == TransductionSizes(34, 34)
    ids = data.codec.encode(["ab bd zz"]).source[0]
    assert data.codec.source_labels(ids) == ["ab", "bd", "<unk>", "</s>"]


def test_all_symbols_are_known_however_small_the_training_part() -> None:
    data = Copy(train_size=1, validation_size=1, test_size=1)
    data.setup()
    assert data.sizes == TransductionSizes(24, 24)


def test_probes_range_from_short_to_long() -> None:
    data = Reverse(**SMALL)
    probe = data.probe(3)
    assert isinstance(probe, TransductionBatch)
    lengths = probe.source_lengths.tolist()
    assert (lengths[0], lengths[2]) == (4, 11)
    assert 4 < lengths[1] < 11
    assert all(one.equal(two) for one, two in zip(probe[:6], data.probe(3)[:6], strict=True))


def test_setup_reads_once() -> None:
    data = Reverse(**SMALL)
    data.setup("fit")
    parts = data.splits
    data.setup("test")
    assert data.splits is parts
