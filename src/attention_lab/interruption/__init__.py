"""Signals, the startup watchdog, the training guard, resuming, and sweep jobs in separate processes."""
