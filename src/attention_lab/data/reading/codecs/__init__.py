"""Codecs: raw text to batches and back. A trained model keeps one, and needs nothing else from its data.

`encode(lines)` makes an unlabelled batch with one example per line; see `encode_lines` for its errors.
`state()` returns plain strings, numbers, lists and dicts, from which `codec_from_state` makes an equal codec.
"""

from typing import Any, get_args

from attention_lab.data.reading.codecs.base import BaseCodec, check_codec
from attention_lab.data.reading.codecs.classification import ClassificationCodec
from attention_lab.data.reading.codecs.image import ImageCodec
from attention_lab.data.reading.codecs.labelled_image import LabelledImageCodec
from attention_lab.data.reading.codecs.language import LanguageCodec
from attention_lab.data.reading.codecs.node import NodeCodec
from attention_lab.data.reading.codecs.regression import RegressionCodec
from attention_lab.data.reading.codecs.series import SeriesCodec
from attention_lab.data.reading.codecs.transduction import TransductionCodec
from attention_lab.errors import LabError

__all__ = [
    "BaseCodec",
    "ClassificationCodec",
    "Codec",
    "ImageCodec",
    "LabelledImageCodec",
    "LanguageCodec",
    "NodeCodec",
    "RegressionCodec",
    "SeriesCodec",
    "TransductionCodec",
    "check_codec",
    "codec_from_state",
]

Codec = (
    RegressionCodec
    | TransductionCodec
    | ClassificationCodec
    | SeriesCodec
    | LabelledImageCodec
    | ImageCodec
    | NodeCodec
    | LanguageCodec
)


def codec_from_state(state: dict[str, Any]) -> Codec:
    """The codec with this `state`, of any kind.

    Raises:
        LabError: the state does not belong to a codec, or its values do not fit together.
    """
    kinds = {kind.KIND: kind for kind in get_args(Codec)}
    if state["kind"] not in kinds:
        raise LabError(
            f"unknown kind of codec {str(state['kind'])[:40]!r}: this checkpoint is from another version"
        )
    codec: Codec = kinds[state["kind"]].from_state(state)
    check_codec(codec, "the checkpoint's codec")
    return codec
