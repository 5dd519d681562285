"""The figures that matplotlib draws in a test, to be asked what is on them."""

from typing import Any

import pytest


@pytest.fixture
def drawn_axes(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The axes of each figure that is drawn during the test, in their order."""
    figure = pytest.importorskip("matplotlib.figure").Figure
    drawn: list[Any] = []
    add_subplot = figure.add_subplot

    def keep(self: Any, *arguments: Any, **options: Any) -> Any:
        drawn.append(add_subplot(self, *arguments, **options))
        return drawn[-1]

    monkeypatch.setattr(figure, "add_subplot", keep)
    return drawn
