"""The hints at names that papers and other programs use."""

import re
from pathlib import Path

from attention_lab.commandline.other_names import CHOICES, OPTIONS, OWN_FILES

CONF = Path(__file__).parents[2] / "conf"


def test_choices_and_options_in_hints_exist() -> None:
    """A hint that names an unknown choice or option would be worse than none."""
    hints = [OPTIONS, OWN_FILES, *(CHOICES[group] for group in ("data", "model", "scoring", "window"))]
    texts = " ".join(text for one in hints for text in one.values())
    for group, choice in re.findall(r"(?<![.\w])([a-z]+)=(\w+)", texts):
        assert (CONF / group / f"{choice}.yaml").is_file(), f"{group}={choice}"
    for group, option in re.findall(r"(?<![.\w])([a-z]+)\.(?:\w+\.)?(\w+)", texts):
        files = [file.read_text() for file in (CONF / group).glob("**/*.yaml")]
        files += ["run:\n dir:"] if group == "hydra" else []
        assert any(re.search(rf"^ *{option}:", text, re.MULTILINE) for text in files), f"{group}.{option}"
