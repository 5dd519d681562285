"""`--version` prints the versions of this program and its main packages; Hydra would print its own."""

import sys


def print_version() -> None:
    """Print the versions and end the program if the command line contains `--version`."""
    if "--version" not in sys.argv[1:]:
        return
    from importlib.metadata import PackageNotFoundError, version  # here, since it slows down the start

    found = []
    for package in ("attention-lab", "torch", "pytorch-lightning", "hydra-core"):
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"{package} (not installed)")
    first, *others = found
    print(f"{first} ({', '.join(others)}, Python {sys.version.split()[0]})")
    sys.exit(0)
