"""Checks of the options of data sets."""

from collections.abc import Collection, Iterable, Sequence

from attention_lab.argument_checks import LARGEST_SEED
from attention_lab.errors import LabError


def check_fractions(fractions: Sequence[float], every_split: bool = False) -> None:
    """Check that `data.fractions` is three shares that sum to 1, the first (or each of them) above 0.

    Raises:
        LabError: the check fails.
    """
    shares = tuple(fractions) if isinstance(fractions, Iterable) else (fractions,)
    numbers = all(isinstance(share, int | float) and share >= 0 for share in shares)
    if (
        not numbers
        or len(shares) != 3
        or abs(sum(shares) - 1) > 1e-6
        or 0 in shares[: 3 if every_split else 1]
    ):
        needed = "each above 0" if every_split else "the first above 0"
        raise LabError(
            f"data.fractions={list(shares)}: give the shares of training, validation and test, "
            f"{needed}, which sum to 1, such as [0.8,0.1,0.1]"
        )


def check_at_least(minimum: float, **options: float) -> None:
    """Raise LabError if a data option is below `minimum`, or not a whole number if `minimum` is an int."""
    whole = isinstance(minimum, int)
    for name, value in options.items():
        if not isinstance(value, int if whole else int | float) or not value >= minimum:
            raise LabError(f"data.{name}={value}: give a {'whole ' * whole}number of at least {minimum}")


def check_seed(seed: int) -> None:
    """Raise LabError if a seed is not a whole number that NumPy and PyTorch accept."""
    check_at_least(0, seed=seed)
    if seed > LARGEST_SEED:
        raise LabError(f"data.seed={seed}: choose at most {LARGEST_SEED}")


def check_batch_size(batch_size: int | None) -> None:
    """Raise LabError if a batch size is below 1; None means all examples at once."""
    if batch_size is not None:
        check_at_least(1, batch_size=batch_size)


def check_choice(choices: Collection[str], **options: str) -> None:
    """Raise LabError if a data option is not one of `choices`."""
    for name, value in options.items():
        if value not in choices:
            raise LabError(f"data.{name}={value}: choose one of {', '.join(choices)}")


def check_trained_with(option: str, needed: object, found: object) -> None:
    """Raise LabError if a data option is not the one that a trained model was made for."""
    if needed != found:
        needed, found = (str(one).lower() if isinstance(one, bool) else one for one in (needed, found))
        raise LabError(f"the model needs data.{option}={needed}, but this data has {found}")
