"""Checks of checkpoints, configurations and run folders that may come from others, before they are used."""
