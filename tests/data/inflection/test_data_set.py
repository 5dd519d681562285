from pathlib import Path

import pytest
import torch

from attention_lab.data import Inflection, TransductionCodec, codec_from_state
from attention_lab.data.inflection.paradigms import MOST_FORMS, Paradigms
from attention_lab.data.reading.batches import Unseen
from attention_lab.data.reading.files import Row
from attention_lab.data.transduction import Example
from attention_lab.errors import LabError
from attention_lab.sizes import TransductionSizes
from attention_lab.special_symbols import BOS, EOS, UNK

TRAIN = "gehen\tging\tV;PST;1\ngehen\tgehst\tV;PRS;2\ngehen\tgingt\tV;PST;2\nV\tVs\tN;PL\n"
TEST = "gehen\tgehe\tV;PRS;1\nsehen\tsah\tV;PST;4\n"


def _data(folder: Path, train: str = TRAIN, **options: object) -> Inflection:
    for name, text in (("train", train), ("test", TEST)):
        (folder / f"{name}.tsv").write_text(text)
    test = str(folder / "test.tsv")
    files = {"train_file": str(folder / "train.tsv"), "validation_file": test, "test_file": test}
    return Inflection(**files, **options)  # type: ignore[arg-type]


def test_tags_are_symbols_of_their_own(tmp_path: Path) -> None:
    data = _data(tmp_path)
    train = data.examples().train
    assert [example.alignment for example in data.examples().test] == [(), ()]  # it is no gold alignment
    assert train[3] == Example((";N", ";PL", "V"), ("V", "s"), [2, -1])
    data.setup()
    letters, tags = list("Veghinst"), [";1", ";2", ";N", ";PL", ";PRS", ";PST", ";V"]
    assert data.codec.target.vocabulary.symbols == letters
    assert data.codec.source.vocabulary.symbols == [*letters, *tags]
    assert data.sizes == TransductionSizes(4 + 8 + 7, 4 + 8, tags=7)
    assert data.sizes.copies == (0, 0, 0, 0, *range(4, 12), *[0] * 7)
    assert data.splits.train[torch.tensor([3])].source.tolist() == [[14, 15, 4, EOS]]


def test_unseen_letters_and_tags_are_unknown(tmp_path: Path) -> None:
    data = _data(tmp_path)
    batch = data.splits.test[torch.tensor([1])]
    assert batch.source[0].tolist() == [18, 17, BOS, 10, 5, 7, 5, 9, EOS]
    assert data.codec.source_labels(batch.source[0])[:4] == [";V", ";PST", "<unk>", "s"]
    line = "gähen\tV;PST;4"
    batch = data.codec.encode([line])
    assert batch.source[0].tolist() == [18, 17, BOS, 6, UNK, 7, 5, 9, EOS]
    assert batch.unseen[0] == Unseen((";4", "ä"), (), copyable=("ä",))
    assert data.codec.source_text(batch.source[0], batch.unseen[0].source) == line


def test_lines_to_predict_and_back(tmp_path: Path) -> None:
    data = _data(tmp_path, known_forms=1)
    data.setup()
    state = data.codec.state()
    codec = codec_from_state(state)
    assert isinstance(codec, TransductionCodec) and codec.state() == state
    for line in ("gehen\tV;PST;1", "gehen\tV;PRS;1\tgehst\tV;PRS;2"):
        batch = codec.encode([line])
        assert codec.source_text(batch.source[0]) == line
    with pytest.raises(LabError, match=r"^input 3: a line is lemma<TAB>tags"):
        codec.encode(["gehen"], first=3)
    with pytest.raises(LabError, match=r"^input 1: a tag is empty in 'V;;PST'"):
        codec.encode(["gehen\tV;;PST"])


def test_known_forms_are_those_of_training_with_the_nearest_tags(tmp_path: Path) -> None:
    data = _data(tmp_path, known_forms=1)
    parts = data.examples()
    text = data.source.text
    assert text(parts.train[0].source) == "gehen\tV;PST;1\tgingt\tV;PST;2"  # never the form to write
    assert text(parts.train[3].source) == "V\tN;PL"
    assert text(parts.test[0].source) == "gehen\tV;PRS;1\tging\tV;PST;1"  # as near as gehst, and first
    assert text(parts.test[1].source) == "sehen\tV;PST;4"  # forms in test are not known
    data.setup()
    assert data.sizes.tags == 7
    known = [symbol for symbol in data.codec.source.vocabulary.symbols if symbol[0] == "="]
    assert known == ["=1", "=2", "=N", "=PL", "=PRS", "=PST", "=V"]


def test_known_forms_that_do_not_fit_in_memory_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of n forms of a lemma has n - 1 known forms: a file of 1 MB could take 25 GB."""
    train = tmp_path / "train.tsv"
    train.write_text("".join(f"go\t{'x' * 1_000}{row}\tV;{row}\n" for row in range(100)))
    options = dict.fromkeys(("train_file", "validation_file", "test_file"), str(train))
    monkeypatch.setattr("attention_lab.machine.usable_memory", lambda: 20 << 20)
    Inflection(**options, known_forms=1).examples()  # type: ignore[arg-type]
    found = rf"^{train}:9: reading the sources up to here, with data\.known_forms=99, takes about 21 MiB"
    with pytest.raises(LabError, match=f"{found}.*: give fewer known forms$"):
        Inflection(**options, known_forms=99).examples()  # type: ignore[arg-type]


def test_more_known_forms_are_ordered_by_their_tags(tmp_path: Path) -> None:
    data = _data(tmp_path, known_forms=9)
    assert data.source.text(data.examples().test[0].source).split("\t")[2::2] == ["ging", "gehst", "gingt"]


def test_only_the_first_of_very_many_forms_are_compared() -> None:
    """Otherwise, a file in which all forms have the same lemma would take quadratic time."""
    rows = [Row("", "go", f"f{number}", f"T{number}") for number in range(MOST_FORMS)]
    wanted = Row("", "go", "went", "V;PST")
    paradigms = Paradigms([*rows, Row("", "go", "gone", "V;PTCP")], most=1)
    assert paradigms.text(wanted) == "go\tV;PST\tf0\tT0"
    paradigms = Paradigms([*rows[1:], Row("", "go", "gone", "V;PTCP")], most=1)
    assert paradigms.text(wanted) == "go\tV;PST\tgone\tV;PTCP"


@pytest.mark.parametrize(("forms", "tags"), [(MOST_FORMS, 1), (100, 1_000)])
def test_comparing_forms_takes_limited_time(
    forms: int, tags: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 1,000 forms of one lemma and 2,000 tags for each, a file of 9 MB took many minutes to read."""
    monkeypatch.setattr("attention_lab.data.inflection.paradigms.MOST_STEPS", 200_000)
    train = tmp_path / "train.tsv"
    named = [";".join(f"{form}.{tag}" for tag in range(tags)) for form in range(forms)]
    train.write_text("".join(f"go\tf{form}\t{text}\n" for form, text in enumerate(named)))
    options = dict.fromkeys(("train_file", "validation_file", "test_file"), str(train))
    found = rf"^{train}:\d+: the lemmas up to here have too many forms and tags to choose known forms"
    with pytest.raises(LabError, match=f"{found}: leave some out, or set data.known_forms=0$"):
        Inflection(**options, known_forms=1).examples()  # type: ignore[arg-type]
    Inflection(**options).examples()  # type: ignore[arg-type]


def test_a_split_file_keeps_the_forms_of_a_lemma_together(tmp_path: Path) -> None:
    path = tmp_path / "all.tsv"
    path.write_text("".join(f"{a}{b}\t{a}{b}{c}\tN;{c}\n" for a in "abc" for b in "xyz" for c in "12"))
    parts = Inflection(file=str(path), fractions=[0.5, 0.25, 0.25]).examples()
    lemmas = [{example.source[2:] for example in part} for part in parts]
    assert sum(map(len, lemmas)) == len(set.union(*lemmas)) == 9
    assert sum(map(len, parts)) == 18


def test_normalization_decomposes_letters(tmp_path: Path) -> None:
    data = _data(tmp_path, "fä\tfés\tN;PL\n", normalization="NFD")
    assert data.examples().train == [
        Example((";N", ";PL", "f", "a", "\u0308"), tuple("fe\u0301s"), [2, -1, -1, -1])
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tb\n", r"train\.tsv:1: 1 tab, but two are needed: lemma<TAB>form<TAB>tags"),
        ("a\tb\tN\nc\t \tN\n", r"train\.tsv:2: the form is empty; a line is lemma<TAB>form<TAB>tags"),
        ("a\tb\tN\nc\td\t\n", r"train\.tsv:2: the tags are empty; a line is lemma<TAB>form<TAB>tags"),
        ("a\tb\tN;\n", r"train\.tsv:1: a tag is empty in 'N;'; write tags as N;PL"),
        ("a\tb\tN\tc\n", r"train\.tsv:1: 3 tabs, but two"),
    ],
)
def test_bad_lines(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(LabError, match=message):
        _data(tmp_path, text).setup()


def test_bad_options() -> None:
    with pytest.raises(LabError, match=r"data\.known_forms=-1: give a whole number of at least 0"):
        Inflection(known_forms=-1)
    with pytest.raises(LabError, match=r"data\.hallucinate=1\.5: give a whole number of at least 0"):
        Inflection(hallucinate=1.5)  # type: ignore[arg-type]
    with pytest.raises(LabError, match=r"data\.normalization=nfd: choose one of none, NFC, NFD, NFKD"):
        Inflection(normalization="nfd")  # type: ignore[arg-type]
