"""Checks of the parts of an attention, of its arguments, and of what its parts return."""
