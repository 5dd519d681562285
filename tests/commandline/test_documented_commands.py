"""The commands in README, the guides and the other pages pass the checks of the command line."""

import re
import shlex
from pathlib import Path

import pytest

from attention_lab.commandline.choice_checks import check_choices
from attention_lab.commandline.overrides import with_test_options

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("[A-Z]*.md"), *ROOT.glob("d*/**/*.md")]
COMMAND = re.compile(r"(?<!\$\()python train\.py([^`\n]*)")
LEFT_OPEN = re.compile(r"\.\.\.|<|--config-dir|experiment=$|launcher=(joblib|ray)|=\$")
"""To be filled in by the reader, or for another folder or installation."""


def commands(page: Path) -> list[list[str]]:
    """The arguments of each command on a page that is complete."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    found = [re.split(r" [|&>] ?", line)[0] for line in COMMAND.findall(text)]
    return [shlex.split(one, comments=True) for one in found if not LEFT_OPEN.search(one.strip())]


@pytest.mark.long
@pytest.mark.sampled(2)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_documented_commands_are_accepted(page: Path) -> None:
    for arguments in commands(page):
        check_choices(with_test_options(arguments), ROOT / "conf")


def test_most_commands_are_found() -> None:
    found = [arguments for page in PAGES for arguments in commands(page)]
    assert len(found) > 100 and ["logger=[wandb,mlflow]"] in found
