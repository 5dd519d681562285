"""Write the learned embeddings for TensorBoard's Embedding Projector at the end of training."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytorch_lightning as pl
from google.protobuf import text_format  # type: ignore[import-untyped]
from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig
from torch import Tensor, nn

from attention_lab.data.reading.codecs import (
    ClassificationCodec,
    Codec,
    ImageCodec,
    LanguageCodec,
    TransductionCodec,
)
from attention_lab.data.reading.vocabulary import Tokenizer
from attention_lab.files.writing import write_atomically
from attention_lab.loggers.tensorboard import run_logger
from attention_lab.special_symbols import PAD
from attention_lab.tasks import Task


class Embeddings(pl.Callback):
    """Write every token embedding table, labelled with its tokens, for TensorBoard's PROJECTOR tab."""

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write the tables, on the writing process only."""
        assert isinstance(pl_module, Task)
        logger = run_logger(trainer)
        if logger is not None:
            write_projector(Path(logger.log_dir), embedding_tables(pl_module))


def write_projector(folder: Path, tables: Iterable[tuple[str, list[str], Tensor]]) -> None:
    """Write tables and their labels to `embeddings`, and the file that tells TensorBoard where they are.

    torch's `add_embedding` would leave a folder named after the step among the run's other files.
    """
    config = ProjectorConfig()
    for name, labels, vectors in tables:
        entry = config.embeddings.add(tensor_name=f"{name}:{len(labels)}")
        entry.tensor_path = f"embeddings/{name}/tensors.tsv"
        entry.metadata_path = f"embeddings/{name}/metadata.tsv"
        rows = ("\t".join(map(repr, row)) for row in vectors.tolist())
        write_atomically(folder / entry.tensor_path, "\n".join(rows) + "\n")
        write_atomically(folder / entry.metadata_path, "\n".join(labels) + "\n")
    if config.embeddings:
        write_atomically(folder / "projector_config.pbtxt", text_format.MessageToString(config))


def embedding_tables(task: Task) -> Iterator[tuple[str, list[str], Tensor]]:
    """Yield the name, labels [N] and vectors [N, d] of each table, without the padding symbol."""
    for name, module in task.model.named_modules():
        if not isinstance(module, nn.Embedding):
            continue
        tokenizer = _tokenizer(task.codec, name)
        if tokenizer is not None and len(tokenizer.vocabulary) == module.num_embeddings:
            numbers = [number for number in range(module.num_embeddings) if number != PAD]
            labels = [plain(tokenizer.vocabulary.symbol(number)) for number in numbers]
            yield name, labels, module.weight.detach()[numbers].float().cpu()


def plain(label: str) -> str:
    r"""A label made visible, for a cell of a tab-separated file.

    Unprintable characters such as tabs and line breaks are written as in Python: `\t`, `\n`.
    """
    if label.isspace() and label.isprintable():
        return "␣" * len(label)
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in label)


def _tokenizer(codec: Codec, name: str) -> Tokenizer | None:
    """The tokenizer whose ids index the rows of the table called `name` in the model."""
    match codec:
        case LanguageCodec() | ClassificationCodec():
            return codec.tokenizer
        case TransductionCodec():
            return codec.source if name.startswith("encoder") else codec.target
        case ImageCodec():
            return codec.target
    return None
