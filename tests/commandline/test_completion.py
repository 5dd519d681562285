"""Shells complete the choices of options, as Hydra's completion asks for them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from attention_lab.commandline.completion import check_completion

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("stage=t", "stage=test stage=theorem"),
        ("seed=2 stage=test monitor.mode=m", "monitor.mode=max monitor.mode=min"),
    ],
)
def test_choices_are_offered(line: str, offered: str) -> None:
    done = subprocess.run(
        [sys.executable, "train.py", "-sc", "query=bash"],
        env={**os.environ, "COMP_LINE": f"python train.py {line}"},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == offered.split()


def test_the_name_of_a_file_runs_no_command(tmp_path: Path) -> None:
    """A folder may be from others, and bash expands the names that Hydra offers."""
    python, runs, made = tmp_path / "bin" / "python", tmp_path / "runs", tmp_path / "made"
    for folder in (python.parent, runs):
        folder.mkdir()
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    for name in ("run_1", "run$(touch${IFS}$MADE)", "run`touch${IFS}$MADE`"):
        (runs / name).touch()
    line = f"python train.py resume={runs}/ru"
    script = f"""
        eval "$(python train.py -sc install=bash)"
        COMP_LINE="{line}" COMP_CWORD=2 hydra_bash_completion
        echo "${{COMPREPLY[@]}}"
    """
    path = f"{python.parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script],
        env={**os.environ, "PATH": path, "MADE": str(made)},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    assert not made.exists()
    assert (done.stdout.split(), done.stderr) == ([f"resume={runs}/run_1"], "")


@pytest.mark.parametrize("given", [[], ["install"], ["installl=bash"], ["install=bsh"], ["query=bash"]])
def test_a_wrong_shell_ends_in_one_line(given: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COMP_LINE", raising=False)
    monkeypatch.setattr(sys, "argv", ["train.py", "-sc", *given])
    with pytest.raises(SystemExit) as ended:
        check_completion()
    message = str(ended.value)
    assert message.startswith("Error: -sc needs install=bash") and "\n" not in message


def test_a_shell_and_other_flags_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments in (["-sc", "install=bash"], ["--shell-completion", "uninstall=fish"], ["--help"]):
        monkeypatch.setattr(sys, "argv", ["train.py", *arguments])
        check_completion()
