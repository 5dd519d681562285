"""Files from others: what a checkpoint, a configuration or a run's folder may hold is checked before use."""
