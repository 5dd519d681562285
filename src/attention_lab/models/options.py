"""Checks of the options that shape a model."""

from attention_lab.errors import LabError


def check_at_least(least: int, **options: int) -> None:
    """Raise LabError for an option of the model below `least`."""
    for name, number in options.items():
        if number < least:
            raise LabError(f"model.{name} must be at least {least}, got {number}")
