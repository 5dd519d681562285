"""The inputs of stage=predict: the words of a list are used as typed."""

from typing import Any

import pytest

from attention_lab.commandline.overrides import parse_override
from attention_lab.errors import LabError, LineError
from attention_lab.experiment.inputs import Places, read_inputs, with_tabs


@pytest.mark.parametrize(
    ("typed", "lines"),
    [
        ("[one,two words]", ["one", "two words"]),
        ("[null, true,False ,007,1e3]", ["null", "true", "False", "007", "1e3"]),
        ('["two words", \'a, b\',"it\'s"]', ["two words", "a, b", "it's"]),
        (r'["say \"hi\"", a\,b]', ['say "hi"', "a,b"]),
        ("['',to]", ["", "to"]),
    ],
)
def test_items_are_texts(typed: str, lines: list[str]) -> None:
    assert read_inputs(["something else"], ["stage=predict", f"inputs={typed}"]) == lines


def test_a_list_that_is_not_typed_has_its_words_too() -> None:
    given: list[Any] = [None, True, 7, "a"]
    assert read_inputs(given) == ["null", "true", "7", "a"]


def test_a_tab_may_be_written_out_in_a_list() -> None:
    assert with_tabs([r"perav\tV;PST", "a\tN", r"a\b" "\t" r"N\t", "b"]) == [
        "perav\tV;PST",
        "a\tN",
        r"a\b" "\t" r"N\t",
        "b",
    ]


@pytest.mark.parametrize(
    ("inputs", "said"), [(None, "needs inputs"), ("", "needs inputs"), ([], "no inputs")]
)
def test_no_inputs_are_refused(inputs: Any, said: str) -> None:
    with pytest.raises(LabError, match=said):
        read_inputs(inputs, [] if inputs is None else [f"inputs={inputs}"])


def test_a_list_within_the_list_is_no_input() -> None:
    with pytest.raises(LabError, match=r"^inputs: input 2 is a list: write it as text, ") as raised:
        read_inputs(["a", [30, 1.5, "b"]], ["inputs=[a,[30,1.5,b]]"])
    assert str(raised.value).endswith("""'inputs=["30,1.5,b"]'""")


@pytest.mark.parametrize(
    ("inputs", "said"), [(["a"], "input 7: bad"), ("a.txt", "a.txt:7: bad"), ("-", "standard input:7: bad")]
)
def test_errors_name_the_input_by_its_own_number(inputs: Any, said: str) -> None:
    with pytest.raises(LabError) as raised, Places.of(inputs).blame_lines([3, 7]):
        raise LineError(2, "bad")
    assert str(raised.value) == said
    with pytest.raises(LabError, match="line 2: another"), Places.of(inputs).blame_lines([3]):
        raise LabError("line 2: another")


@pytest.mark.parametrize(("given", "written"), [("twenty-one", "twenty-one"), ("1 2; 3 4", '"1 2; 3 4"')])
def test_a_missing_file_may_be_meant_as_an_input(given: str, written: str) -> None:
    with pytest.raises(LabError, match=r"No such file .*; to predict for a single input, write ") as raised:
        read_inputs(given)
    assert str(raised.value).endswith(f"'inputs=[{written}]'")
    assert parse_override(f"inputs=[{written}]").value() == [given]
