"""Words and text for language models: splits, blocks, vocabularies, and errors in one line."""

import tracemalloc
from pathlib import Path

import pytest
from small_data import whole

from attention_lab.data import CMUDict, LanguageBatch, LanguageCodec, Text, Words, codec_from_state
from attention_lab.data.file_warnings import overlaps
from attention_lab.data.reading.datasets import PROMPT
from attention_lab.errors import LabError
from attention_lab.sizes import LanguageSizes
from attention_lab.special_symbols import BOS, EOS, PAD, UNK


def text(folder: Path, content: str, **options: object) -> Text:
    (folder / "my.txt").write_text(content)
    return Text(file=str(folder / "my.txt"), **options)  # type: ignore[arg-type]


def read(data: Text | Words) -> list[list[str]]:
    return [[data.codec.decode(ids) for ids in whole(part).tokens] for part in data.splits]


@pytest.mark.long
def test_words_are_those_of_the_dictionary_parted_alike() -> None:
    data, phones = Words(size=50), CMUDict(size=50)
    train, validation, test = read(data)
    assert [len(train), len(validation), len(test)] == [50, 1000, 2000]
    assert len({*train, *validation, *test}) == 3050
    for mine, split in zip(read(data), phones.splits, strict=True):
        assert set(mine) == {phones.codec.source.decode(ids) for ids in whole(split)[0]}
    assert data.sizes == LanguageSizes(27 + 4, 1 + max(map(len, train + validation + test)))


def test_a_word_is_its_letters_between_begin_and_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dict").write_text("ab AH0\nb B\nc'd D\n")
    monkeypatch.setattr("attention_lab.data.language.dictionary_file", lambda: str(tmp_path / "dict"))
    data = Words(size=None, validation_size=1, test_size=1)
    rows = [row for part in data.splits for row in whole(part).tokens.tolist()]
    assert sorted(rows) == [[BOS, 5, 6, EOS], [BOS, 6, EOS], [BOS, 7, 4, 8, EOS]]
    assert [whole(part).lengths.tolist() for part in data.splits] == [[len(row)] for row in rows]
    with pytest.raises(LabError, match=r"data\.size=2: validation and test leave 1 word for training"):
        Words(size=2, validation_size=1, test_size=1).setup()


def test_a_text_is_parted_by_position_and_cut_into_blocks(tmp_path: Path) -> None:
    content = "abcab\nabca" + "bca  b" + "\tcac"
    data = text(tmp_path, content, fractions=[0.5, 0.3, 0.2], block_size=4, min_count=1)
    unknown = "<unk>"  # training has no space and no tab
    assert read(data) == [
        ["abca", "b\nab", "ca"],
        [f"bca{unknown}", f"{unknown}b"],
        [f"{unknown}cac"],
    ]
    assert data.codec.tokenizer.vocabulary.symbols == ["\n", "a", "b", "c"]
    assert data.sizes == LanguageSizes(vocabulary=8, length=4)
    batch = whole(data.splits.train)
    assert batch.tokens.tolist() == [[BOS, 5, 6, 7, 5], [BOS, 6, 4, 5, 6], [BOS, 7, 5, PAD, PAD]]
    assert batch.lengths.tolist() == [5, 5, 3]
    assert data.codec.labels(batch.tokens[1]) == ["<s>", "b", "↵", "a", "b"]
    assert data.codec.shown(batch.tokens[1]) == "b↵ab"


def test_words_of_a_text(tmp_path: Path) -> None:
    data = text(tmp_path, "a b\na  c b\ta a b c", fractions=[0.5, 0.25, 0.25], unit="words", block_size=3)
    assert read(data) == [["a b a", "<unk> b"], ["a a"], ["b <unk>"]]  # c comes once in training
    assert data.sizes == LanguageSizes(vocabulary=6, length=3)


@pytest.mark.long
def test_a_text_takes_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A string for each character would take 50 bytes, or 100 beyond Latin-1."""
    monkeypatch.setattr(overlaps, "CHUNK", 1000)
    content = "слово за слово\n" * 20_000
    text(tmp_path, content[:1000]).build()  # whatever is cached
    tracemalloc.start()
    text(tmp_path, content).build()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20 * len(content)


def test_three_files(tmp_path: Path) -> None:
    names = {}
    for part, content in (("train", "aabb"), ("validation", "ab"), ("test", "bx")):
        (tmp_path / part).write_text(content)
        names[f"{part}_file"] = str(tmp_path / part)
    data = Text(**names)  # type: ignore[arg-type]
    assert read(data) == [["aabb"], ["ab"], ["b<unk>"]]


def test_the_prompts_of_a_batch_grow_and_leave_something_out(tmp_path: Path) -> None:
    batch = whole(text(tmp_path, "ab" * 500, block_size=100).splits.train)
    assert len(batch.tokens) == 8
    assert batch.prompts.tolist() == [1 + PROMPT * row // 8 for row in range(8)]
    words = Words(size=1).probe(4)
    assert isinstance(words, LanguageBatch)
    assert words.prompts[0] == 1
    assert (words.prompts < words.lengths).all()


def test_lines_to_go_on_from_may_be_empty() -> None:
    data = Words(size=1)
    data.setup()
    batch = data.codec.encode(["", "Ab", "a?\n"], first=5)
    assert batch.tokens.tolist() == [[BOS, PAD, PAD], [BOS, 5, 6], [BOS, 5, UNK]]
    assert batch.prompts.tolist() == batch.lengths.tolist() == [1, 3, 3]
    assert batch.numbers.tolist() == [5, 6, 7]
    with pytest.raises(LabError, match="no lines to read"):
        data.codec.encode([])


def test_the_codec_survives_its_state(tmp_path: Path) -> None:
    for data in (Words(size=1), text(tmp_path, "ab ab ab ab", unit="words")):
        data.setup()
        again = codec_from_state(data.codec.state())
        assert isinstance(again, LanguageCodec)
        assert again == data.codec
        assert again.sizes == data.sizes


def test_a_given_codec_is_kept_and_one_of_another_form_refused(tmp_path: Path) -> None:
    data = text(tmp_path, "abcabcabc", block_size=4)
    data.setup()
    other = text(tmp_path, "bcdbcdbcdbcd", block_size=2)
    other.codec = data.codec
    assert read(other)[0][:2] == ["bc", "<unk>b"]
    assert other.sizes == data.sizes
    for wrong, found in (
        (text(tmp_path, "a b a b a b", unit="words"), "data=text with data.unit=words"),
        (Words(size=1), "data=words"),
    ):
        wrong.codec = data.codec
        with pytest.raises(LabError, match=f"needs data=text with data.unit=characters, but this is {found}"):
            wrong.setup()


def test_errors_name_the_file_or_the_option(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"none\.txt: No such file"):
        Text(file=str(tmp_path / "none.txt")).setup()
    with pytest.raises(LabError, match=r"my\.txt: the file is empty"):
        text(tmp_path, " \n ").setup()
    (tmp_path / "bad.txt").write_bytes(b"abc\n\xff")
    with pytest.raises(LabError, match=r"bad\.txt:2: not UTF-8"):
        Text(file=str(tmp_path / "bad.txt")).setup()
    with pytest.raises(LabError, match=r"my\.txt: 2 characters, too few for three splits"):
        text(tmp_path, "ab").setup()
    with pytest.raises(LabError, match=r"my\.txt: 1 word, too few for three splits"):
        text(tmp_path, "abcd", unit="words").setup()
    with pytest.raises(LabError, match=r"no symbol occurs at least data\.min_count=9 times in training"):
        text(tmp_path, "abcd", min_count=9).setup()
    with pytest.raises(LabError, match=r"data\.validation_file and data\.test_file are missing"):
        Text(train_file="a.txt").setup()
    with pytest.raises(LabError, match=r"data\.file replaces data\.train_file"):
        Text(train_file="a.txt", file="b.txt").setup()
    with pytest.raises(LabError, match=r"data\.unit=lines: choose one of characters, words"):
        Text(unit="lines")  # type: ignore[arg-type]
    with pytest.raises(LabError, match=r"data\.block_size=1: give a whole number of at least 2"):
        Text(block_size=1)
    with pytest.raises(LabError, match=r"data\.size=0"):
        Words(size=0)
