"""File formats of pictures: PNG, or SVG and PDF with vectors and real text."""

import warnings
from io import BytesIO
from typing import TYPE_CHECKING, Any, Literal

from PIL import Image

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Format = Literal["png", "svg", "pdf"]
"""The suffix of a picture's file name."""

_TEXT: Any = {"svg.fonttype": "none", "svg.hashsalt": "attention-lab", "pdf.fonttype": 42}
"""Write letters as text, not as shapes, and use the same element names in every file."""


def to_png(image: Image.Image) -> bytes:
    """Encode `image` as PNG; the same picture always gives the same bytes."""
    buffer = BytesIO()
    image.save(buffer, format="PNG", compress_level=4)
    return buffer.getvalue()


def to_vectors(figure: "Figure", kind: Format) -> bytes:
    """Encode a figure as SVG or PDF; the same figure always gives the same bytes."""
    from matplotlib import rc_context

    buffer = BytesIO()
    # Leave out the time of creation.
    metadata = {"Date": None} if kind == "svg" else {"CreationDate": None}
    with rc_context(_TEXT), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a glyph that no font has
        figure.savefig(buffer, format=kind, metadata=metadata)
    return buffer.getvalue()
