"""Show a sequence of vectors as text: the rows of a small picture, or the number of each vector."""

from torch import Tensor

from attention_lab.console_text import counted

SHADES = "·░▒▓█"
"""Characters from paper to ink."""
MOST_PIXELS = 32
"""Maximum number of rows of a small picture, and of pixels in a row."""


def vector_labels(vectors: Tensor) -> list[str]:
    """A label for each vector [L, d]: a row of pixels if they are a small picture, otherwise its number."""
    if _is_picture(vectors):
        return [shades(vector) for vector in vectors]
    return [str(number) for number in range(1, len(vectors) + 1)]


def vectors_text(vectors: Tensor) -> str:
    """The vectors [L, d] as one line: the rows of a small picture, or their number and size."""
    if _is_picture(vectors):
        return " ".join(vector_labels(vectors))
    length, size = vectors.shape
    return f"{counted(length, 'vector')} of {counted(size, 'number')}"


def shades(vector: Tensor) -> str:
    """Numbers from 0 to 1 as shade characters, so that a column of pixel rows looks like the image."""
    steps = (vector.clamp(0, 1) * 4).round().int().tolist()
    return "".join(SHADES[step] for step in steps)


def _is_picture(vectors: Tensor) -> bool:
    """Whether there are at most `MOST_PIXELS` vectors of at most that size, with numbers from 0 to 1."""
    return max(vectors.shape) <= MOST_PIXELS and bool(((vectors >= 0) & (vectors <= 1)).all())
