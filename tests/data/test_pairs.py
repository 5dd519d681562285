from pathlib import Path

import pytest
from small_data import whole

from attention_lab.data import Pairs
from attention_lab.errors import LabError
from attention_lab.sizes import TransductionSizes
from attention_lab.special_symbols import EOS, PAD, UNK

EXAMPLE = Path(__file__).parents[2] / "data" / "pairs_example.tsv"
TRAIN = "ab\tx y\nab\tz\nb\ty\n"
TEST = "ab\tx\nq\ty w\nab\ty\nab\tx\n"


@pytest.fixture
def data(tmp_path: Path) -> Pairs:
    (tmp_path / "train.tsv").write_text(TRAIN)
    (tmp_path / "test.tsv").write_text(TEST)
    train, test = str(tmp_path / "train.tsv"), str(tmp_path / "test.tsv")
    return Pairs(train_file=train, validation_file=test, test_file=test, target_split="spaces")


def test_references_that_need_too_much_memory_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch has a slot for each reference of the source with most, as long as the longest."""
    (tmp_path / "train.tsv").write_text("a\tb\n")
    (tmp_path / "test.tsv").write_text(f"a\tb\na\tc\na\td\nb\t{'b' * 29}\nc\tb\n")
    needed = 2 * 3 * 30 * 64  # two examples with three slots of thirty symbols; reading the file takes less
    train, test = str(tmp_path / "train.tsv"), str(tmp_path / "test.tsv")
    monkeypatch.setattr("attention_lab.machine.usable_memory", lambda: needed)
    Pairs(train_file=train, validation_file=train, test_file=test, batch_size=2).setup()
    for batch_size in (3, None):
        with pytest.raises(LabError, match=r"/test\.tsv.*: .* up to 3 references .* lower data\.batch_size"):
            Pairs(train_file=train, validation_file=train, test_file=test, batch_size=batch_size).setup()


def test_every_training_line_is_an_example(data: Pairs) -> None:
    data.setup()
    assert data.sizes == TransductionSizes(6, 7)
    batch = whole(data.splits.train)
    assert batch.source.tolist() == [[4, 5, EOS], [4, 5, EOS], [5, EOS, PAD]]
    assert batch.target.tolist() == [[4, 5, EOS], [6, EOS, PAD], [5, EOS, PAD]]
    assert batch.target_lengths.tolist() == [3, 2, 2]
    assert (batch.alignment == -1).all()
    assert batch.alignment.shape == batch.target.shape


def test_a_repeated_source_has_several_references(data: Pairs) -> None:
    batch = whole(data.splits.test)
    assert batch.source.tolist() == [[4, 5, EOS], [UNK, EOS, PAD]]
    assert batch.target.tolist() == [[4, EOS, PAD], [5, UNK, EOS]]
    assert batch.references.tolist() == [
        [[4, EOS, PAD], [5, EOS, PAD]],
        [[5, UNK, EOS], [PAD, PAD, PAD]],
    ]


def test_many_targets_of_one_source_take_memory_in_proportion(tmp_path: Path) -> None:
    """With all of them as references of every training example, 50,000 lines would take 20 GB."""
    rows = [f"a\t{number}\n" for number in range(3_000)]
    for part, count in (("train", 3_000), ("validation", 1_000), ("test", 1_001)):
        (tmp_path / part).write_text("".join(rows[:count]))
    files = {f"{part}_file": str(tmp_path / part) for part in ("train", "validation", "test")}
    data = Pairs(**{**files, "test_file": files["validation_file"]})
    data.setup()
    batch = whole(data.splits.train)
    assert batch.references.shape[:2] == (3_000, 1) and batch.references[:, 0].equal(batch.target)
    assert whole(data.splits.test).references.shape[:2] == (1, 1_000)
    with pytest.raises(LabError) as error:
        Pairs(**files).setup()
    assert str(error.value) == (
        f"{tmp_path}/test: the source 'a' has 1,001 targets, but at most 1,000 references are compared "
        "with an output: leave some out"
    )


def test_one_file_is_parted_by_its_sources() -> None:
    data = Pairs(file=str(EXAMPLE), fractions=[0.5, 0.25, 0.25])
    sources = [{example.source for example in part} for part in data.examples()]
    assert sum(map(len, sources)) == len(set.union(*sources)) == 38
    assert data.examples() == data.examples()
    data.setup()
    text = "".join(data.codec.source.vocabulary.symbols)
    assert text == "".join(sorted(text))


def test_normalization_of_each_side() -> None:
    data = Pairs(file=str(EXAMPLE), source_normalization="NFD")
    (source, target), *_ = (
        (example.source, example.target)
        for part in data.examples()
        for example in part
        if example.source[:3] == ("c", "a", "f")
    )
    assert (len(source), len(target)) == (5, 5)


def test_unknown_symbols_are_decoded_by_name(data: Pairs) -> None:
    data.setup()
    batch = data.codec.encode(["a?"])
    assert data.codec.source_labels(batch.source[0]) == ["a", "<unk>", "</s>"]


def test_a_given_codec_is_kept(data: Pairs) -> None:
    data.setup()
    other = Pairs(file=str(EXAMPLE), target_split="spaces")
    other.codec = data.codec
    other.setup()
    assert other.codec is data.codec
    assert other.sizes == data.sizes


def test_a_codec_of_another_notation_is_refused(data: Pairs) -> None:
    data.setup()
    other = Pairs(file=str(EXAMPLE))
    other.codec = data.codec
    with pytest.raises(LabError, match=r"needs data\.target_split=spaces, but this data has characters"):
        other.setup()


def test_errors(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"data\.source_split=letters: choose one of characters, spaces"):
        Pairs(source_split="letters")  # type: ignore[arg-type]
    with pytest.raises(LabError, match=r"data\.target_normalization=nfd: choose one of none, NFC, NFD, NFKD"):
        Pairs(target_normalization="nfd")  # type: ignore[arg-type]
    with pytest.raises(LabError, match=r"data\.validation_file and data\.test_file are missing"):
        Pairs(train_file="train.tsv").setup()
    path = tmp_path / "bad.tsv"
    path.write_text("a\tb\nc\n")
    with pytest.raises(LabError, match=r"bad\.tsv:2: no tabs, but one is needed: source<TAB>target"):
        Pairs(file=str(path)).setup()
    path.write_text("a\tb\na\tc\n")
    with pytest.raises(LabError, match="leave none of 1 distinct example for training"):
        Pairs(file=str(path)).setup()


class Cluster:
    """What a data module reads from a trainer."""

    world_size = 2

    def __init__(self, rank: int) -> None:
        self.global_rank = rank


def test_the_ranks_of_a_trainer_share_the_data() -> None:
    seen = []
    for rank in range(2):
        data = Pairs(file=str(EXAMPLE), batch_size=4)
        data.trainer = Cluster(rank)  # type: ignore[assignment]
        seen.append([data.codec.decode(ids) for batch in data.train_dataloader() for ids in batch.target])
    data = Pairs(file=str(EXAMPLE))
    everything = [data.codec.decode(ids) for batch in data.train_dataloader() for ids in batch.target]
    assert sorted(seen[0] + seen[1]) == sorted(everything)
    assert abs(len(seen[0]) - len(seen[1])) <= 5
