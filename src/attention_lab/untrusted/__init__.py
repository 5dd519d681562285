"""Check checkpoints, configurations and run folders, which may come from others, before they are used."""
