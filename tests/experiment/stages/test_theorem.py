"""The stage that tests a claim: what it prints and leaves, and how it ends when the claim fails."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from omegaconf import OmegaConf
from rich.text import Text

from attention_lab.experiment.stages.theorem import _show
from attention_lab.theorems import Finding

SMALL = {
    "conv_equivalence": ["theorem.kernels=[2]", "theorem.grid=[4,4]", "theorem.sweep=[1,8]"],
    "scaling": ["theorem.sizes=[4,256]", "theorem.draws=200"],
    "linear_recurrence": ["theorem.length=10", "theorem.lengths=[4,8]"],
    "graph_equivalence": ["theorem.random=[[5,0.5]]"],
    "kernel_equivalence": ["theorem.samples=10"],
    "hard_gradients": ["theorem.repetitions=5000", "theorem.samples=[1,4]"],
    "early_information": [
        "theorem.length=4",
        "theorem.symbols=30",
        "theorem.hidden_size=12",
        "theorem.others=[]",
        "theorem.steps=60",
        "theorem.learning_rate=0.05",
    ],
    "receptive_field": ["theorem.distances=[1,4]", "theorem.depths=2"],
}
OFTEN = {"graph_equivalence", "scaling"}
"""Theorems that are run in long tests; each is also tested in tests/theorems."""
CONF = Path(__file__).parents[3] / "conf" / "experiment"


def test_every_theorem_of_conf_is_tested_here() -> None:
    named = {path.stem for path in CONF.glob("*.yaml") if "theorem" in OmegaConf.load(path)}
    assert named == set(SMALL)


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in OFTEN else pytest.mark.slow) for name in SMALL],
)
def test_a_theorem_is_run_from_the_command_line(command, name: str) -> None:
    run = command(f"experiment={name}", *SMALL[name])
    assert (run.status, run.err) == (0, "")
    finding = json.loads((run.folder / "finding.json").read_text(encoding="utf-8"))
    assert finding["holds"] is True
    assert finding["title"] in run.out
    assert "holds: yes" in run.out
    assert finding["figures"]
    for figure in finding["figures"]:
        assert (run.folder / figure).read_bytes().startswith(b"\x89PNG")


@pytest.mark.long
def test_no_number_is_cut_on_a_narrow_terminal(command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # a terminal
    monkeypatch.setenv("COLUMNS", "80")
    shown = command("experiment=scaling", "theorem.sizes=[4,256,1024]", "theorem.draws=200").out
    assert "scaled:" in shown and "…" not in shown
    table = Text.from_ansi(shown).plain.partition("holds")[0]
    assert max(map(len, table.splitlines())) <= 80


@pytest.mark.long
def test_columns_have_lines_between_them_where_the_names_of_columns_wrap(command) -> None:
    table = command("experiment=scaling", *SMALL["scaling"]).out.partition("holds")[0].splitlines()
    assert sum(line.count("│") == 10 for line in table) == 2, "a row for each of two sizes"
    assert max(map(len, table)) <= 120


@pytest.mark.parametrize("terminal", [None, "80", "60"])
def test_nothing_in_a_table_of_texts_is_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, terminal: str | None
) -> None:
    """As in early_information, whose cells are a mean and its interval."""
    if terminal is not None:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("COLUMNS", terminal)
    columns = ("symbols read after it", *(f"{how} 32, backwards" for how in ("attention", "last state") * 2))
    rows = [("first 5 read", *("0.99 (0.96 to 1.00)",) * 4)]
    _show(Finding("title", "claim", "source", columns, rows, "criterion", holds=True, figures=()), Path("a"))
    shown = Text.from_ansi(capsys.readouterr().out).plain
    assert "…" not in shown
    assert shown.count("backwards") == shown.count("0.99 (0.96 to 1.00)") == 4
    assert max(map(len, shown.splitlines())) <= 120


@pytest.mark.long
def test_a_claim_that_fails_ends_with_status_1_and_is_written_down(command) -> None:
    run = command("experiment=conv_equivalence", *SMALL["conv_equivalence"], "theorem.sharpness=2")
    assert run.status == 1
    assert "holds: no" in run.out
    assert run.out.count("criterion: every difference from conv2d") == 1
    assert run.err == "Error: the claim does not hold with these options: its criterion is not met\n"
    assert json.loads((run.folder / "finding.json").read_text(encoding="utf-8"))["holds"] is False


@pytest.mark.long
def test_an_infinite_number_is_null_in_the_file(command) -> None:
    """All gradients are zero at this temperature, and so is the standard error."""
    options = ["theorem.temperatures=[1e30]", "theorem.repetitions=200"]
    run = command("experiment=hard_gradients", *options)
    text = (run.folder / "finding.json").read_text(encoding="utf-8")
    row = json.loads(text, parse_constant=pytest.fail)["rows"][-1]
    assert (row[0], *row[2:]) == ("Gumbel, T = 1e+30", 0.0, None, 0.0)


@pytest.mark.long
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["stage=theorem"], "choose experiment=conv_equivalence, early_information, graph"),
        (["experiment=receptive_field", "theorem.kernel_size=4"], "theorem.kernel_size=4 must be odd"),
        (["experiment=scaling", "theorem.sizes=[8]"], "give two sizes or more"),
        (["experiment=conv_equivalence", "theorem.paddings=[half]"], "half is unknown: choose valid"),
        (["experiment=conv_equivalence", "theorem.kernels=[0]"], "theorem.kernels must be at least 1, got 0"),
        (
            ["experiment=conv_equivalence", "theorem.sharpness=null"],
            "theorem.sharpness=null must be ",
        ),
        (
            ["experiment=conv_equivalence", "theorem.kernels=abc"],
            "theorem.kernels=abc must be a list of ",
        ),
        (["experiment=linear_recurrence", "theorem.length=2.5"], "theorem.length=2.5 must be a whole number"),
        (["experiment=hard_gradients", "theorem.samples=[4]"], "theorem.samples must contain 1"),
        (
            ["experiment=graph_equivalence", "theorem.edges=[1-8,abc]"],
            "'abc' is not an edge: give pairs of nodes",
        ),
        (["experiment=scaling", "theorem._target_=builtins.dict"], "is not a theorem: it has no run(seed)"),
        (["experiment=scaling", "seed=-1"], "seed=-1: choose 0 or more"),
        (["experiment=scaling", "theorem._target_=attention_lab.viz.Heatmap"], "Error: theorem: "),
    ],
)
def test_a_mistake_is_one_line(command, arguments: list[str], message: str) -> None:
    run = command(*arguments)
    assert run.status == 1
    assert len(run.err.splitlines()) == 1
    assert message in run.err


@pytest.mark.long
def test_no_lightning_is_imported() -> None:
    script = "import sys, attention_lab.experiment.stages.theorem as d; "
    script += "sys.exit(any(name.startswith(('pytorch_lightning', 'lightning')) for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_the_name_of_a_folder_is_text_on_the_console(capsys: pytest.CaptureFixture[str]) -> None:
    finding = Finding("title", "claim", "source", ("a",), [(1,)], "criterion", holds=True, figures=())
    _show(finding, Path("a[/b]\x1b[2J"))
    assert (
        capsys.readouterr().out.splitlines()[-1].endswith(" a[/b]\N{REPLACEMENT CHARACTER}[2J/finding.json")
    )
