"""The commands of docs/contract.md."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_no_row_leaves_out_the_long_tests() -> None:
    """By default pytest does, so the rows name what they run."""
    spec = importlib.util.spec_from_file_location("contract", ROOT / "docs" / "contract.py")
    assert spec is not None and spec.loader is not None
    contract = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(contract)
    commands = [promise.arguments for promise in contract.promises([])]
    tests = [arguments for program, *arguments in commands if program == "pytest"]
    assert tests
    for arguments in tests:
        assert arguments[arguments.index("-m") + 1] in ("not gpu", "not slow and not gpu")
