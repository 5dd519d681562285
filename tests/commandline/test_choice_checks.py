"""Checks of the choices on the command line."""

from pathlib import Path

import pytest

from attention_lab.commandline.choice_checks import check_choices
from attention_lab.errors import LabError

CONF = Path(__file__).parents[2] / "conf"


@pytest.mark.parametrize(
    "argument", ["model=sq2seq", "+model=sq2seq", "model=lm,sq2seq", "model=choice(sq2seq)"]
)
def test_an_unknown_choice_is_named_however_it_is_written(argument: str) -> None:
    with pytest.raises(LabError, match=r"^model=sq2seq is unknown \(did you mean seq2seq\?\)"):
        check_choices([argument], CONF)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("model=ViT", "model=multihead data=labelled_images model.readout=cls"),
        ("data=mnist", "data=digits"),
        ("data=csv", "data=csv_regression"),
        ("scoring=entmax", "normalizer=entmax15"),
    ],
)
def test_names_from_papers_and_books_are_translated(given: str, meant: str) -> None:
    with pytest.raises(LabError, match=rf"^{given} is unknown \(did you mean {meant}"):
        check_choices([given], CONF)


@pytest.mark.sampled(2, rest="long")
@pytest.mark.parametrize(
    "arguments",
    [
        ["logger=[csv,tensorboard]"],
        ["data='reverse'"],
        ['data=["reverse"]'],
        ["-m", 'data="reverse",copy'],
        ["-m", 'logger=["csv",tensorboard],none'],
    ],
)
def test_choices_in_lists_and_in_quotes(arguments: list[str]) -> None:
    check_choices([*arguments, "seed=2"], CONF)
    *flags, option = arguments
    wrong = option.replace("csv", "csw").replace("reverse", "revers")
    with pytest.raises(LabError, match=r"^\w+=(csw is unknown|revers is unknown \(did you mean reverse\?\))"):
        check_choices([*flags, wrong], CONF)


@pytest.mark.parametrize(
    "arguments", [["scoring=[dot,additive]"], ["-m", "scoring=['dot',additive],general"]]
)
def test_only_one_class_can_be_chosen(arguments: list[str], tmp_path: Path) -> None:
    message = (
        r"^scoring=\[dot,additive\]: choose one, or for a sweep over them write -m scoring=dot,additive$"
    )
    with pytest.raises(LabError, match=message):
        check_choices(arguments, CONF)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine.yaml").write_text("batch_size: 8\n")
    check_choices(["--config-dir", str(tmp_path), "data=[reverse,mine]", "scoring=[dot]"], CONF)


@pytest.mark.parametrize("value", ["5", "null", "true", "{a:1}"])
def test_a_group_of_hydra_takes_the_name_of_a_choice(value: str) -> None:
    with pytest.raises(LabError, match=r"^hydra/launcher=.*: give the name of a choice, not "):
        check_choices([f"hydra/launcher={value}"], CONF)
    check_choices(["hydra/launcher=basic", "hydra/sweeper='basic'", "~hydra/launcher"], CONF)


@pytest.mark.parametrize("argument", ["~mechanism=[]", "~debug=[a]", "~hydra/launcher=[]", "~search=5"])
def test_what_is_left_out_is_the_name_of_a_choice(argument: str) -> None:
    with pytest.raises(LabError, match=r"^~.*: write ~[\w/]+ alone, or the name of the choice after it$"):
        check_choices([argument], CONF)
    check_choices(["~debug", "~hydra/launcher=basic", "~hydra.job.env_set={A:1}"], CONF)


@pytest.mark.parametrize("value", ["-1", "2.5", "null", "[1]", "{a:1}", "true,5"])
def test_details_are_for_all_loggers_or_for_those_named(value: str) -> None:
    with pytest.raises(LabError, match=r"^hydra.verbose=.*: give true, false, the name of a logger or"):
        check_choices(["-m", f"hydra.verbose={value}"], CONF)
    check_choices(["hydra.verbose=true"], CONF)
    check_choices(["hydra.verbose=[attention_lab,hydra]"], CONF)
    check_choices(["-m", "hydra.verbose=hydra,false"], CONF)


@pytest.mark.parametrize("argument", ["hydra.run.dir=null", "hydra.run.dir=[a]", "hydra.sweep.dir=null"])
def test_anything_but_a_folder_is_rejected(argument: str) -> None:
    with pytest.raises(LabError, match=r"^hydra\..*: give a folder, such as hydra\.(run|sweep)\.dir="):
        check_choices([argument], CONF)


@pytest.mark.parametrize(
    "argument", ["hydra.run.dir=${oc.env:MINE}/x", "hydra.sweep.subdir=a_${oc.env: MINE }"]
)
def test_a_folder_in_a_variable_that_is_not_set_is_refused(
    argument: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MINE", raising=False)
    with pytest.raises(LabError, match=r"^hydra\..*: the environment variable MINE is not set$"):
        check_choices([argument], CONF)
    check_choices([argument.replace("$", "\\$")], CONF)  # the name of a folder
    monkeypatch.setenv("MINE", "logs")
    check_choices([argument], CONF)


def test_a_class_given_as_a_choice_is_refused_with_the_option_for_it() -> None:
    own = r"for a class of your own, add pooling\._target_=my_package\.Mine to one of these$"
    with pytest.raises(LabError, match=rf"unknown: choose exact, gumbel, hard, monotonic, soft; {own}"):
        check_choices(["pooling=my_package.Mine"], CONF)


@pytest.mark.long
def test_choices_and_options_of_ones_own_folder(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.yaml").write_text(
        "# @package _global_\nmodel:\n  _target_: a.B\n  size: 32\n"
    )
    for given in (["--config-dir", str(tmp_path)], [f"--config-dir={tmp_path}"], ["-cd", str(tmp_path)]):
        check_choices([*given, "model=mine", "model.size=8", "seed=1"], CONF)
        for wrong, message in [
            ("model=mind", r"^model=mind is unknown \(did you mean mine\?\): choose cnn, .*, mine, "),
            ("model.sise=8", r"^there is no option model\.sise; did you mean model\.size\?$"),
            ("model.size=x", r"^model\.size=x must be a whole number, such as 32$"),
            ("sead=1", "^there is no option sead; did you mean seed"),
        ]:
            with pytest.raises(LabError, match=message):
                check_choices([*given, *(["model=mine"] if "=mind" not in wrong else []), wrong], CONF)
    (tmp_path / "model" / "mine.yaml").rename(tmp_path / "model" / "mine.v2.yaml")
    check_choices([*given, "model=mine.v2", "model.size=8"], CONF)  # not a class
    (tmp_path / "model" / "mine.v2.yaml").rename(tmp_path / "mine.yaml")
    (tmp_path / "model" / "sub").mkdir()
    (tmp_path / "mine.yaml").rename(tmp_path / "model" / "sub" / "mine.yaml")
    check_choices([*given, "model=sub/mine", "model.size=8", "data=reverse.yaml"], CONF)
    with pytest.raises(LabError, match=r"^model=/.*/mine\.yaml is unknown: choose cnn, graph, "):
        check_choices([*given, f"model={tmp_path}/model/sub/mine.yaml"], CONF)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "reverse.yaml").write_text("size: 3\nown: 4\n")  # Hydra takes the one in `conf`
    with pytest.raises(LabError, match=r"choose .*, repeat, reverse, sentences, "):
        check_choices([*given, "data"], CONF)
    with pytest.raises(LabError, match=r"^there is no option data\.own: if the class of data takes it"):
        check_choices([*given, "data.own=1"], CONF)
    with pytest.raises(LabError, match=r"^--config-dir=/.*none: there is no such folder$"):
        check_choices(["--config-dir", str(tmp_path / "none"), "model=mine"], CONF)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"model:\n  a: [1\n", r":3: expected ',' or '\]', but got '<stream end>'"),
        (b"model:\n\ta: 1\n", r":2: found character '\\t' that cannot start any token"),
        (b"a: 1\na: 2\n", r":2: found duplicate key a"),
        (b"model:\n  !!python/name:os.system x\n", r":2: could not determine a constructor for the tag .*"),
        (b"\xff", r": it is not UTF-8"),
        (b"- a: 1\n", r": it is a list, not options"),
        (b"a: " + b"[\n" * 5000, r": .*recursion.*"),
        (None, r": it is a directory, not a regular file"),
    ],
)
def test_a_file_of_ones_own_that_cannot_be_read(content: bytes | None, said: str, tmp_path: Path) -> None:
    path = tmp_path / "experiment" / "mine.yaml"
    (path if content is None else path.parent).mkdir(parents=True)
    if content is not None:
        path.write_bytes(content)
    for options in ([], ["seed=1"]):
        with pytest.raises(LabError, match=f"^{path}{said}$"):
            check_choices(["--config-dir", str(tmp_path), "experiment=mine", *options], CONF)
    (path.parent / "sub").mkdir()
    path = path.rename(path.parent / "sub" / path.name)
    with pytest.raises(LabError, match=f"^{path}{said}$"):
        check_choices(["--config-dir", str(tmp_path), "experiment=sub/mine"], CONF)
