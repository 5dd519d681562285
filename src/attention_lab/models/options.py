"""Checks of model options."""

from attention_lab.errors import LabError


def check_at_least(least: int, **options: int) -> None:
    """Raise LabError for a model option below `least`."""
    for name, number in options.items():
        if number < least:
            raise LabError(f"model.{name} must be at least {least}, got {number}")
