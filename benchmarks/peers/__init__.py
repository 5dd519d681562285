"""Code to compare with that takes more than one call: of other libraries, and in plain PyTorch."""
