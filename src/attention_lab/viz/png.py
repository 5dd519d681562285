"""PNG bytes of a picture."""

from io import BytesIO

from PIL import Image


def to_png(image: Image.Image) -> bytes:
    """Encode `image` as PNG; the same picture always gives the same bytes."""
    buffer = BytesIO()
    image.save(buffer, format="PNG", compress_level=4)
    return buffer.getvalue()
