"""Overrides are parsed consistently, and written values can be read back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention_lab.commandline import overrides
from attention_lab.errors import LabError


@pytest.mark.parametrize(
    ("text", "sign", "key", "value"),
    [
        ("model.layers=2", "", "model.layers", "2"),
        ("+size=64", "+", "size", "64"),
        ("++seed=3", "++", "seed", "3"),
        ("~callbacks.progress_bar", "~", "callbacks.progress_bar", ""),
        ("inputs=a=b", "", "inputs", "a=b"),
        ("-m", "", "-m", ""),
        ("", "", "", ""),
    ],
)
def test_split(text: str, sign: str, key: str, value: str) -> None:
    assert overrides.split_override(text) == (sign, key, value)
    assert overrides.split_override(text).removes == (sign == "~")


def test_the_keys_of_a_command_line_have_no_duplicates() -> None:
    assert overrides.option_names(["seed=1", "~a.b", "+seed=2", "model=lm"]) == ["seed", "a.b", "model"]


def test_paths_lose_their_quotes() -> None:
    given_ = ["resume='a b'", "resumed=x", 'resume="c=d"', "~resume", "resume=e"]
    assert overrides.paths_given(given_, "resume") == ["a b", "c=d", "e"]


@pytest.mark.parametrize("name", ['it\'s "x" ', "C:\\", "a\\'b"])
def test_paths_in_quotes_are_read_as_hydra_reads_them(name: str) -> None:
    assert overrides.paths_given([f"resume={overrides.quote(name)}"], "resume") == [name]
    assert overrides.paths_given(["resume='it\\'s'", "resume=it's"], "resume") == ["it's", "it's"]


@pytest.mark.parametrize("key", ["sweep", "sweep.trials", "sweep/sampler", "sweep/sampler.seed"])
def test_the_part_of_an_option(key: str) -> None:
    assert overrides.part_of(key) == "sweep"


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])))
def test_quoted_text_is_read_back_unchanged(text: str) -> None:
    assert overrides.read_value(overrides.quote(text)) == text


@pytest.mark.parametrize("value", [None, True, False, 3, -2.5, 1e-20])
def test_other_values_need_no_quotes(value: object) -> None:
    assert overrides.read_value(overrides.quote(value)) == value
    assert overrides.quote(value) == overrides.as_text(value)


@pytest.mark.parametrize(
    ("text", "values", "size"),
    [
        ("model=lm", ["lm"], None),
        ("model=lm,nw", ["lm", "nw"], 2),
        ("model=choice(lm,nw)", ["lm", "nw"], 2),
        ("a='x y',null,true,3", ["x y", None, True, 3], 4),
        ("a=['x y',b],c", [["x y", "b"], "c"], 2),
        ("seed=range(3)", [], 3),
        ("optimizer.lr=interval(0,1)", [], 0),
        ("experiment=null", [None], None),
        ("~model", [None], None),
    ],
)
def test_the_values_of_an_option(text: str, values: list[object], size: int | None) -> None:
    parsed = overrides.parse_override(text)
    assert overrides.listed_values(parsed) == values
    assert overrides.sweep_sizes([parsed]) == {parsed.key_or_group: size}


@pytest.mark.parametrize(
    "text",
    [
        f"tags={'[' * 40}{']' * 40}",
        f"tags={'[' * 500}{']' * 500}",
        f"tags=[a],{'[' * 40}{']' * 40}",
        f"+trainer.x={'{a:' * 40}1{'}' * 40}",
        f"+data{'.x' * 40}=1",
    ],
)
def test_an_override_of_many_levels_is_rejected(text: str) -> None:
    """Hydra and OmegaConf ended in tracebacks of thousands of lines."""
    with pytest.raises(
        LabError, match=r"^[^ ]{60}\.\.\. cannot be read: it has more than 30 levels of options$"
    ):
        overrides.parse_override(text)


def test_an_unreadable_override_is_refused_with_a_suggestion() -> None:
    with pytest.raises(LabError, match=r"""as in 'inputs=\["汉字", "a b"\]'"""):
        overrides.parse_override("inputs=[汉字, a b]")


@pytest.mark.parametrize(
    "text", ['inputs=["two words!", b!]', "inputs=[two words!, b!]", "inputs=['it!',b!]"]
)
def test_the_quotes_that_an_error_advises_can_be_typed(text: str) -> None:
    with pytest.raises(LabError, match="put quotes around special characters") as caught:
        overrides.parse_override(text)
    advised = str(caught.value).rpartition(" as in ")[2][1:-1]
    before = overrides.list_items(overrides.split_override(text).value)
    assert (
        overrides.parse_override(advised).value()
        == before
        == overrides.list_items(overrides.split_override(advised).value)
    )


@pytest.mark.parametrize("stage", ["stage=test", "stage='test'", "++stage=test"])
def test_options_of_a_checkpoint_are_set_by_force(stage: str) -> None:
    given = [stage, "-m", "data.test_file=a.tsv", "+data.file=b.tsv", "model.heads=2", "data=pairs"]
    forced = [stage, "-m", "++data.test_file=a.tsv", "+data.file=b.tsv", "++model.heads=2", "data=pairs"]
    assert overrides.with_test_options(given) == forced
    assert overrides.with_test_options([stage, "data.file=a.tsv"]) == [stage, "++data.file=a.tsv"]


@pytest.mark.parametrize("stage", ["stage=fit", "seed=1", "stage=predict"])
def test_other_stages_know_the_options_of_their_data(stage: str) -> None:
    given = [stage, "data.test_file=a.tsv"]
    assert overrides.with_test_options(given) == given
