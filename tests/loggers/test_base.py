"""What the loggers share: the extra that they need, and the ids of their records."""

from pathlib import Path

import pytest

from attention_lab.commandline import choice_checks
from attention_lab.loggers.base import read_run_id, save_run_id


@pytest.mark.parametrize("logger", ["wandb", "mlflow"])
def test_a_missing_package_is_named_with_its_extra(logger: str, monkeypatch) -> None:
    monkeypatch.setattr(choice_checks, "find_spec", lambda name: None)
    with pytest.raises(
        choice_checks.LabError, match=rf"logger={logger} needs .*pip install -e '\.\[loggers\]'"
    ):
        choice_checks.check_installed("logger", logger)


@pytest.mark.parametrize("content", ["", "../../etc", "abc", "x" * 200, "ABCDEFGH"])
def test_an_id_of_another_form_is_not_used(content: str, tmp_path: Path) -> None:
    path = tmp_path / "id.txt"
    assert read_run_id(path, "[a-z0-9]{8}") is None
    save_run_id(path, content)
    assert read_run_id(path, "[a-z0-9]{8}") is None
