"""Write attention to TensorBoard's log."""

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from tensorboard.compat.proto.summary_pb2 import DATA_CLASS_BLOB_SEQUENCE, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.types_pb2 import DT_STRING

from attention_lab.tensorboard_plugin import PLUGIN
from attention_lab.tensorboard_plugin.arrays import array, broadcast, make_ink, warn_if_clipped
from attention_lab.tensorboard_plugin.codec import encode
from attention_lab.tensorboard_plugin.description import describe
from attention_lab.tensorboard_plugin.record import AttentionRecord


def add_attention(
    writer: Any,
    tag: str,
    weights: Any,
    queries: Sequence[str],
    keys: Sequence[str],
    step: int,
    *,
    gold: Any = None,
    mask: Any = None,
    module: str = "",
    input: str = "",  # noqa: A002
    output: str = "",
    expected: str = "",
    picture: tuple[Any, int] | tuple[Any, int, bool] | None = None,
    x: tuple[Any, Any] | None = None,
) -> None:
    """Write the weights of one attention on one example, for the Attention tab.

    Arrays may be PyTorch tensors of any float type on any device, NumPy arrays, or lists. Weights outside
    [0, 1] are clipped, with a warning. If there are more than 4,194,304, the record keeps as many heads as
    8 MiB hold, with the largest weights of each query and the means of tiles. The tab says what a record
    lacks.

    Args:
        writer: `torch.utils.tensorboard.SummaryWriter`, or any object with its `add_summary(summary, step)`.
        tag: name of a series of steps, one for each example and module: `example 1/decoder`.
        weights: `[H, Q, K]`, a distribution over the keys for each head and query.
        queries: label of each of the Q rows: any text.
        keys: label of each of the K columns.
        step: the training step.
        gold: `[Q]` or `[Q, G]`, the correct keys of each query, -1 for none.
        mask: bool, broadcastable to `[H, Q, K]`, True = attended.
        module: the name of the attention module in the model.
        input: the example as text.
        output: the model's output for it.
        expected: the correct output, which is shown where the output differs.
        picture: an image `[height, width]` with values from 0 (paper) to 1 (ink), and the side in pixels of
            the square cells that are the keys, numbered down each column, starting with the leftmost; with
            True as a third item, row by row.
        x: positions of the queries `[Q]` and of the keys `[K]`, if they are numbers on one axis.

    Raises:
        ValueError: shapes do not fit each other, there are more than 10,000 heads, or a long input has more
            than 65,535 queries or keys.
    """
    values = array(weights, np.float32, "weights")
    record = AttentionRecord(
        weights=values,
        queries=list(queries),
        keys=list(keys),
        module=module,
        input=input,
        output=output,
        expected=expected,
        mask=None if mask is None else broadcast(array(mask, np.bool_, "mask"), values.shape),
        gold=None if gold is None else array(gold, np.int64, "gold"),
        picture=None if picture is None else make_ink(*picture),
        x=None if x is None else (array(x[0], np.float64, "x"), array(x[1], np.float64, "x")),
    )
    warn_if_clipped(values, "add_attention: weights", record.mask)
    write_record(writer, tag, record, step)


def write_record(writer: Any, tag: str, record: AttentionRecord, step: int) -> None:
    """Write a record as an event of the series `tag`."""
    value = Summary.Value(
        tag=tag.encode("utf-8", "replace").decode(),
        metadata=SummaryMetadata(
            plugin_data=SummaryMetadata.PluginData(plugin_name=PLUGIN, content=describe(record)),
            data_class=DATA_CLASS_BLOB_SEQUENCE,
        ),
        tensor=TensorProto(
            dtype=DT_STRING,
            tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=2)]),
            string_val=encode(record),
        ),
    )
    file_writer = writer._get_file_writer() if hasattr(writer, "_get_file_writer") else writer
    file_writer.add_summary(Summary(value=[value]), operator.index(step))
