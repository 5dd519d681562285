"""What tests of recording get."""

import pytest


@pytest.fixture(autouse=True)
def _first_calls_checked() -> None:
    """All calls are checked: recording tells places in a model by their stacks, where a check is a frame."""
