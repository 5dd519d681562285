"""Made-up training examples: by hand, and properties of any."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from attention_lab.data import Inflection
from attention_lab.data.inflection.hallucination import hallucinate, replaceable, stretches
from attention_lab.data.inflection.letter_alignment import LONGEST, is_letter
from attention_lab.data.transduction import Example

LIVE = Example((";V", ";PST", *"wohnen"), tuple("gewohnt"))
WALK = Example((";V", ";PST", *"umherwandern"), tuple("umherwanderte"))
GO = Example((";V", ";PST", *"go"), tuple("went"))


def test_the_stem_by_hand() -> None:
    assert stretches(LIVE.source, LIVE.target) == [(2, 2, 4)]
    assert stretches(tuple("festquatschen"), tuple("quatschte fest")) == [(4, 0, 7)]
    assert stretches(GO.source, GO.target) == []
    assert stretches(tuple("abcxyz"), tuple("abcqxyz")) == [(0, 0, 3), (3, 4, 3)]


def test_a_text_too_long_for_a_word_has_no_stem() -> None:
    word = "ab" * (LONGEST // 2)
    assert stretches(word, word) == [(0, 0, LONGEST)]
    assert stretches(word + "c", word) == []


def test_what_may_be_replaced_by_hand() -> None:
    assert replaceable(WALK.source, WALK.target) == [(2, 0, 8)]  # umherwan, before der
    assert replaceable(LIVE.source, LIVE.target) == []  # all of it stands beside a change
    assert replaceable(tuple("abcd"), tuple("abcd")) == [(0, 0, 4)]
    assert replaceable(tuple("abcdexyz"), tuple("pabcdexyz")) == [(3, 4, 5)]


def test_everything_but_the_inside_of_the_stem_stays() -> None:
    made = hallucinate([WALK, GO], 20, seed=0)
    assert len(made) == len({(one.source, one.target) for one in made}) == 20
    letters = set("umherwandertewent")
    for source, target, _ in made:
        assert source[:2] == (";V", ";PST") and source[-4:] == tuple("dern")
        assert target[-5:] == tuple("derte")
        assert source[2:10] == target[:8] and set(target[:8]) <= letters
    assert made == hallucinate([WALK, GO], 20, seed=0)
    assert made != hallucinate([WALK, GO], 20, seed=1)


def test_fewer_examples_if_no_more_can_be_made() -> None:
    assert hallucinate([GO, LIVE], 5, seed=0) == []
    assert hallucinate([WALK], 0, seed=0) == []
    aab = Example(tuple("aaaa"), tuple("aaaab"))  # the first letter becomes a or b; with a it is known
    assert [one.source for one in hallucinate([aab], 9, seed=0)] == [tuple("baaa")]


WORDS = st.text("abc é", min_size=1, max_size=9)


@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=6), st.integers(0, 9))
def test_any_words(pairs: list[tuple[str, str]], seed: int) -> None:
    train = [Example((";N", *source), tuple(target)) for source, target in pairs]
    made = hallucinate(train, 10, seed)
    letters = {symbol for one in train for symbol in one.target if is_letter(symbol)}
    shapes = {(len(one.source), len(one.target)) for one in train}
    for one in made:
        assert one not in train
        assert (len(one.source), len(one.target)) in shapes
        assert one.source[0] == ";N"
        assert set(one.target) <= {symbol for other in train for symbol in other.target} | letters


def test_only_training_is_looked_at_and_only_training_grows(tmp_path: Path) -> None:
    for name, text in (("train", "umherwandern\tumherwanderte\tV;PST\n"), ("dev", "xyzen\txyzte\tV;PST\n")):
        (tmp_path / f"{name}.tsv").write_text(text)
    dev = str(tmp_path / "dev.tsv")
    files = {"train_file": str(tmp_path / "train.tsv"), "validation_file": dev, "test_file": dev}
    plain, more = Inflection(**files).examples(), Inflection(**files, hallucinate=7).examples()
    assert more.train[:1] == plain.train and len(more.train) == 8
    assert more[1:] == plain[1:]
    assert not {symbol for one in more.train for symbol in one.target} & set("xyz")


def test_made_up_examples_have_no_known_forms(tmp_path: Path) -> None:
    path = tmp_path / "all.tsv"
    path.write_text("umherwandern\tumherwanderte\tV;PST\numherwandern\tumherwanderst\tV;PRS\n")
    files = dict.fromkeys(("train_file", "validation_file", "test_file"), str(path))
    made = Inflection(**files, known_forms=1, hallucinate=5).examples().train[2:]
    assert len(made) == 5
    assert all(not symbol.startswith("=") for one in made for symbol in one.source)
