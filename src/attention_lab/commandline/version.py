"""The versions of this program and of its packages. `--version` prints them; Hydra would print its own."""

import sys
from collections.abc import Iterable, Iterator


def print_version() -> None:
    """Print the versions and end the program if the command line contains `--version`."""
    if "--version" not in sys.argv[1:]:
        return
    first, *others = versions(("attention-lab", "torch", "pytorch-lightning", "hydra-core"))
    print(f"{first} ({', '.join(others)}, Python {sys.version.split()[0]})")
    sys.exit(0)


def versions(packages: Iterable[str]) -> Iterator[str]:
    """Yield the name and version of each package, or that it is not installed."""
    from importlib.metadata import PackageNotFoundError, version  # here, since it slows down the start

    for package in packages:
        try:
            yield f"{package} {version(package)}"
        except PackageNotFoundError:
            yield f"{package} (not installed)"
