"""Write the learned vectors of symbols for TensorBoard's Embedding Projector at the end of training."""

from collections.abc import Iterator

import pytorch_lightning as pl
from torch import Tensor, nn

from attention_lab.callbacks.tensorboard import run_writer
from attention_lab.data.reading.codecs import ClassificationCodec, Codec, TransductionCodec
from attention_lab.data.reading.image_codec import ImageCodec
from attention_lab.data.reading.language_codec import LanguageCodec
from attention_lab.data.reading.vocabulary import Tokenizer
from attention_lab.sizes import PAD
from attention_lab.tasks import Task


class Embeddings(pl.Callback):
    """Write every table of token embeddings with the tokens as labels: TensorBoard's PROJECTOR tab."""

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write the tables, on the writing process only."""
        writer = run_writer(trainer)
        if writer is None:
            return
        assert isinstance(pl_module, Task)
        for name, labels, vectors in embedding_tables(pl_module):
            writer.add_embedding(vectors, metadata=labels, tag=name, global_step=trainer.global_step)


def embedding_tables(task: Task) -> Iterator[tuple[str, list[str], Tensor]]:
    """The name, labels [N] and vectors [N, d] of each table, without padding."""
    for name, module in task.model.named_modules():
        if not isinstance(module, nn.Embedding):
            continue
        tokenizer = _tokenizer(task.codec, name)
        if tokenizer is not None and len(tokenizer.vocabulary) == module.num_embeddings:
            numbers = [number for number in range(module.num_embeddings) if number != PAD]
            labels = [plain(tokenizer.vocabulary.symbol(number)) for number in numbers]
            yield name, labels, module.weight.detach()[numbers].float().cpu()


def plain(label: str) -> str:
    r"""A visible label for a cell of a tab-separated file.

    Characters that cannot be printed, such as tabs and line breaks, are written as in Python: `\t`, `\n`.
    """
    if label.isspace() and label.isprintable():
        return "␣" * len(label)
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in label)


def _tokenizer(codec: Codec, name: str) -> Tokenizer | None:
    """The tokenizer whose ids are the rows of the table called `name` in the model."""
    match codec:
        case LanguageCodec() | ClassificationCodec():
            return codec.tokenizer
        case TransductionCodec():
            return codec.source if name.startswith("encoder") else codec.target
        case ImageCodec():
            return codec.target
    return None
