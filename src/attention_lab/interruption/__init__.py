"""Signals, the startup watchdog, the training guard, resuming, and jobs in processes of their own."""
