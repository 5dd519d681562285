"""Reading and writing files, and what those of a run are called."""
