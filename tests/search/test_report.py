"""The table of trials on the console."""

import pytest
from rich.console import Console

pytest.importorskip("optuna")

from attention_lab.search.report import print_trials


@pytest.mark.parametrize("width", [40, 80, 160])
def test_nothing_is_cut_on_a_narrow_console(width: int, capsys: pytest.CaptureFixture[str]) -> None:
    names = [
        "trial",
        "state",
        "validation token error rate",
        "lr",
        "embedding_size",
        "label_smoothing",
        "dropout",
    ]
    print_trials(
        Console(width=width),
        "a study",
        names,
        [["3", "complete", "0.7481", "0.003009", "128", "0.09098", "0.26"]],
    )
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    assert not any("…" in line for line in lines)
    if width >= 80:
        assert "embedding_size" in "".join(lines) and "label_smoothing" in "".join(lines)
