"""Fast exact paths, each equal to the reference in `attention.py`."""
