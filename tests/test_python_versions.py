"""Code that behaves differently in the Python versions that the package supports."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "attention_lab"
PLAIN = {"bool", "float", "int", "str"}
"""Types of attributes that an object never keeps anywhere but in its own dictionary."""


def hidden_members(source: str) -> list[str]:
    """Data members of runtime-checkable protocols that may be submodules or buffers of a module.

    From Python 3.12 on, isinstance does not see these, because it calls no `__getattr__`.
    """
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef) and any(
            "runtime_checkable" in ast.unparse(x) for x in node.decorator_list
        ):
            members = [line for line in node.body if isinstance(line, ast.AnnAssign)]
            found += [
                f"{node.name}: {ast.unparse(one)}"
                for one in members
                if ast.unparse(one.annotation) not in PLAIN
            ]
    return found


@pytest.mark.long
def test_protocols_checked_at_run_time_ask_for_no_submodule() -> None:
    found = {path: hidden_members(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")}
    assert {path: members for path, members in found.items() if members} == {}


def test_a_submodule_in_a_protocol_is_found() -> None:
    source = "@runtime_checkable\nclass Parts(Protocol):\n    size: int\n    score: Score"
    assert hidden_members(source) == ["Parts: score: Score"]
