"""Optuna searches: the space, the shared study, its trials and the report."""
