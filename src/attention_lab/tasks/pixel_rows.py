"""A small picture that `data.vector_texts` has written as text, one word for each row of pixels."""

from attention_lab.data.vector_texts import MOST_PIXELS, SHADES

_PAPER, _DARK = SHADES[0], SHADES[2:]
_BLOCKS = " ▀▄█"  # nothing, the upper pixel, the lower one, both


def is_picture(text: str) -> bool:
    """Whether a text is rows of pixels of equal width, at most `MOST_PIXELS` of them."""
    rows = text.split(" ")
    widths = set(map(len, rows))
    if not 1 < len(rows) <= MOST_PIXELS or len(widths) != 1 or min(widths) == 1:
        return False
    return set(text) <= set(f"{SHADES} ")


def console_lines(text: str) -> tuple[str, ...]:
    """The picture as lines of half blocks, two rows of pixels in each.

    >>> console_lines("·█ ██ ·▓ ·░")
    ('▄█', ' ▀')
    """
    rows = text.split(" ")
    rows += [_PAPER * len(rows[0])] * (len(rows) % 2)
    pairs = zip(rows[::2], rows[1::2], strict=True)
    return tuple("".join(map(_block, upper, lower)) for upper, lower in pairs)


def _block(upper: str, lower: str) -> str:
    return _BLOCKS[(upper in _DARK) + 2 * (lower in _DARK)]
