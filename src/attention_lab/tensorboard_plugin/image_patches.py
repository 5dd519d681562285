"""Attention of vision models: records whose keys are the patches of an image are laid over it."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt

from attention_lab.tensorboard_plugin.arrays import array
from attention_lab.tensorboard_plugin.record import AttentionRecord, Ink

MOST_TOKENS = 16
"""Most positions before the patches, such as a class token and registers."""
_CHANNELS = (1, 3, 4)
_LARGEST = 512  # pixels of a side: a larger image is halved

Pixels = npt.NDArray[np.uint8]


class BatchImages:
    """The images of a batch, over which the attention of its examples is laid.

    Args:
        images: see `grey_pictures`.
        patch_size: side of a square patch in pixels; None for that of the model, see `patch_size_of`.
        model: the model.

    Raises:
        ValueError: the images have another shape, or the patch size is unknown or not a whole number above 0.
    """

    def __init__(self, images: Any, patch_size: int | None = None, model: Any = None) -> None:
        self.pictures = grey_pictures(images)
        self.wanted = "give one for each"
        if np.ndim(images) == 3:  # perhaps a single image with channels
            self.wanted += ", [B, C, H, W] if in colour, such as images=image[None] for a single image"
        side: object = patch_size_of(model) if patch_size is None else patch_size
        if side is None:
            raise ValueError("images need patch_size, the side of a patch in pixels, such as patch_size=16")
        if isinstance(side, bool) or not isinstance(side, Integral) or side < 1:
            raise ValueError(f"patch_size={side!r} must be a whole number of pixels, such as 16")
        self.side = int(side)
        self.after = tokens_after_patches(model)

    def below(self, example: int, record: AttentionRecord) -> AttentionRecord:
        """The record of an example, numbered from 0, over its image; see `over_image`.

        Causal attention is left alone: it belongs to a text, which may happen to be as long as the image.

        Raises:
            ValueError: it has attention to patches, but there are fewer images.
        """
        if _causal(record.weights):
            return record
        count = len(self.pictures)
        found = over_image(record, self.pictures[min(example, count - 1)], self.side, self.after)
        if found is not record and example >= count:
            raise ValueError(f"images are given for {count} of {example + 1} or more examples: {self.wanted}")
        return found

    def check_used(self, records: Iterable[AttentionRecord]) -> None:
        """Raise ValueError if none of the records is laid over an image."""
        sizes = set()
        for record in records:
            if record.picture is not None:
                return
            sizes.add(len(record.keys))
        height, width = self.pictures[0].shape
        cells = (height // self.side) * (width // self.side)
        raise ValueError(
            f"images of {height} x {width} pixels have {cells} patches of {self.side} x {self.side}, but the "
            f"attentions have {', '.join(map(str, sorted(sizes)))} keys: give the right patch_size, or only "
            "the vision model if it is part of another; or leave the images out, as for attention that is "
            "causal or in windows"
        )


def grey_pictures(images: Any) -> list[Pixels]:
    """Each image in shades of grey `[height, width]`, as ink: 255 where it is darkest, 0 where brightest.

    Args:
        images: `[B, H, W]`, or `[B, C, H, W]` or `[B, H, W, C]` with 1, 3 or 4 channels; the fourth,
            opacity, is ignored. Values may have any range, such as that of normalised images.

    Raises:
        ValueError: they have other shapes, or are not numbers.
    """
    values = array(images, np.float32, "images")
    if values.ndim == 4:
        last = values.shape[3] in _CHANNELS and values.shape[1] not in (1, 3)
        values = values if last else np.moveaxis(values, 1, 3)
        if values.shape[3] in _CHANNELS:
            values = values[..., :3].mean(3)
    if values.ndim != 3 or 0 in values.shape:
        raise ValueError(
            f"images must have the shape [B, C, H, W], [B, H, W, C] or [B, H, W], not {list(values.shape)}"
        )
    return [_ink(one) for one in np.nan_to_num(values)]


def _ink(grey: npt.NDArray[np.float32]) -> Pixels:
    low, high = float(grey.min()), float(grey.max())
    shades = (grey - low) / (high - low) if high > low else np.ones_like(grey)
    return np.rint(255 * (1 - shades)).astype(np.uint8)


def patch_size_of(model: Any) -> int | None:
    """The side of a patch: that of the first convolution of a model whose stride is its kernel size."""
    for module in model.modules() if hasattr(model, "modules") else ():
        kernel = getattr(module, "kernel_size", None)
        if isinstance(kernel, tuple) and len(kernel) == 2 and kernel == getattr(module, "stride", None):
            return int(kernel[0]) if kernel[0] == kernel[1] > 1 else None
    return None


def tokens_after_patches(model: Any) -> int:
    """The number of positions after the patches: the detection tokens in the configuration of a YOLOS."""
    modules = model.modules() if hasattr(model, "modules") else ()
    counts = (getattr(getattr(one, "config", None), "num_detection_tokens", None) for one in modules)
    return next((count for count in counts if isinstance(count, int)), 0)


def numbered(labels: Sequence[str]) -> bool:
    """Whether labels are only the numbers of the positions, from 0 or 1."""
    return list(labels) in ([*map(str, range(start, start + len(labels)))] for start in (0, 1))


def over_image(record: AttentionRecord, pixels: Pixels, side: int, after: int = 0) -> AttentionRecord:
    """The record laid over an image whose patches are its keys; the same record if its keys are not.

    The keys are at most `MOST_TOKENS` tokens, and no more than there are patches, then the patches, row by
    row, then `after` other tokens. The tokens are left out, so that the weights of a query may sum to less
    than 1. Queries that are only numbered get the names of the keys.

    Args:
        record: the record.
        pixels: the image, see `grey_pictures`; pixels at its right and lower edge may be in no patch.
        side: the side of a square patch in pixels.
        after: the number of tokens after the patches.
    """
    height, width = pixels.shape[0] // side, pixels.shape[1] // side
    cells, positions = height * width, record.weights.shape[2] - after
    if not 0 <= positions - cells <= min(MOST_TOKENS, cells):
        return record
    padded = -(-pixels.shape[0] // side) * -(-pixels.shape[1] // side)
    if cells < padded <= positions:  # the model may have padded the image to whole patches
        return record
    tokens = positions - cells
    patches, gold = slice(tokens, positions), record.gold
    names = [f"r{row}c{column}" for row in range(height) for column in range(width)]
    return replace(
        record,
        weights=np.ascontiguousarray(record.weights[..., patches]),
        mask=None if record.mask is None else np.ascontiguousarray(record.mask[..., patches]),
        queries=_names(record.queries, tokens, names, after),
        keys=names,
        gold=None if gold is None else np.where((gold < tokens) | (gold >= positions), -1, gold - tokens),
        picture=_picture(pixels[: height * side, : width * side], side),
    )


def _names(queries: Sequence[str], tokens: int, patches: list[str], after: int) -> Sequence[str]:
    """Names of the queries if they are all positions, or all patches, and have none; otherwise their own."""
    if not numbered(queries):
        return queries
    if len(queries) == len(patches):
        return patches
    others = [f"token {number}" for number in range(1, tokens + after + 1)]
    positions = [*others[:tokens], *patches, *others[tokens:]]
    return positions if len(queries) == len(positions) else queries


def _causal(weights: npt.NDArray[np.float32]) -> bool:
    """Whether each query attends to itself and positions before it, and some do to those before."""
    _, rows, columns = weights.shape
    return rows == columns and bool(np.tril(weights, -1).any()) and not np.triu(weights, 1).any()


def _picture(pixels: Pixels, side: int) -> Ink:
    while max(pixels.shape) > _LARGEST and side % 2 == 0:
        height, width = pixels.shape
        halves = pixels.reshape(height // 2, 2, width // 2, 2).mean((1, 3))
        pixels, side = np.rint(halves).astype(np.uint8), side // 2
    return Ink(pixels, side, by_row=True)


def by_head(record: AttentionRecord) -> AttentionRecord:
    """A record over an image with its heads in place of the queries, so that one picture has all heads.

    Each shows what the first token attends to, such as the class token; in a model without such tokens, the
    mean over the patches. Any other record, such as that of a decoder, whose queries are no patches, remains
    as it is.
    """
    heads, rows, cells = record.weights.shape
    pooled = rows == 1 < heads
    if record.picture is None or not (pooled or {*record.keys} <= {*record.queries}):
        return record
    mean = rows == cells
    weights = record.weights.mean(1) if mean else record.weights[:, 0]
    mask = None
    if record.mask is not None:
        mask = (np.logical_or.reduce(record.mask, axis=1) if mean else record.mask[:, 0])[None]
    numbers = range(len(weights)) if record.heads is None else record.heads
    return replace(
        record,
        weights=weights[None],
        mask=mask,
        queries=[f"head {number + 1}" for number in numbers],
        input=record.input or ("mean over the patches" if mean else record.queries[0]),
        gold=None,
        heads=None,
    )
