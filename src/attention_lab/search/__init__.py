"""Optuna searches: the search space, the shared study, its trials and the report."""
