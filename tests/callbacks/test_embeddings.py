"""Embedding tables on disk, read back by TensorBoard's own projector plugin."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch
from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.plugins.base_plugin import TBContext
from tensorboard.plugins.projector.projector_plugin import ProjectorPlugin
from torch import Tensor, nn
from werkzeug.exceptions import NotFound
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.test import Client

from attention_lab.callbacks import Embeddings
from attention_lab.callbacks.embeddings import embedding_tables, plain
from attention_lab.data import ClassificationCodec, Codec, LanguageCodec, TransductionCodec
from attention_lab.data.reading.vocabulary import Notation, Tokenizer, Vocabulary
from attention_lab.loggers import TensorBoardRunLogger
from attention_lab.tasks import Observation, Task

STRANGE = ["\n", "\t", " ", "a\tb", "é", "\u2028", "\\n", "日本", "\x00"]
LETTERS = Tokenizer(Notation("characters"), Vocabulary(STRANGE))
PHONES = Tokenizer(Notation("spaces"), Vocabulary([f"P{number}" for number in range(len(STRANGE))]))
SPECIAL = ["<s>", "</s>", "<unk>"]


class Sides(nn.Module):
    """A model with a table on each side, of one size, and one that is no vocabulary's."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.ModuleDict({"embedding": nn.Embedding(13, 3)})
        self.decoder = nn.ModuleDict({"embedding": nn.Embedding(13, 2), "other": nn.Embedding(5, 2)})


class Fitted(Task):
    """A task that makes its tables smaller."""

    def observe(self, batch: Tensor) -> list[Observation]:
        return []

    def answer(self, batch: Tensor) -> list[str]:
        return []

    def train_dataloader(self) -> Iterator[Tensor]:
        yield torch.zeros(1)

    def training_step(self, batch: Tensor, batch_idx: int) -> Tensor:
        return torch.stack([parameter.square().sum() for parameter in self.parameters()]).sum()


def _one() -> nn.Module:
    return nn.ModuleDict({"embedding": nn.Embedding(13, 4)})


def _labels(task: Task) -> dict[str, list[str]]:
    return {name: labels for name, labels, _ in embedding_tables(task)}


@pytest.mark.parametrize(
    "codec", [LanguageCodec(LETTERS, 5, ends=True), ClassificationCodec(["no", "yes"], 5, LETTERS)]
)
def test_a_table_has_a_row_and_a_label_for_each_symbol_but_padding(codec: Codec) -> None:
    task = Fitted(_one(), codec)
    ((name, labels, vectors),) = embedding_tables(task)
    assert name == "embedding"
    assert labels == [*SPECIAL, "\\n", "\\t", "␣", "a\\tb", "é", "\\u2028", "\\n", "日本", "\\x00"]
    assert vectors.equal(task.model.embedding.weight[1:])  # type: ignore[union-attr, index]


def test_each_side_has_its_own_labels() -> None:
    labels = _labels(Fitted(Sides(), TransductionCodec(LETTERS, PHONES)))
    assert list(labels) == ["encoder.embedding", "decoder.embedding"]
    assert labels["encoder.embedding"][-2] == "日本"
    assert labels["decoder.embedding"] == [*SPECIAL, *PHONES.vocabulary.symbols]


def test_vectors_have_no_table() -> None:
    assert _labels(Fitted(_one(), ClassificationCodec(["no", "yes"], 5, features=3))) == {}


@pytest.mark.parametrize("label", ["\r", "\x0b", "\x1c", "\x85", "\u2029", "a\nb", "\t\t", "\ud800"])
def test_a_label_stays_in_its_cell(label: str) -> None:
    shown = plain(label)
    assert len(shown.splitlines()) == 1
    assert "\t" not in shown
    assert shown.strip()
    assert shown.encode("utf-8")


def _get(client: Client, path: str) -> bytes:
    response = client.get(path)
    assert response.status_code == 200, response.data
    return response.data


def test_tensorboard_reads_what_a_run_has_written(tmp_path: Path) -> None:
    task = Fitted(Sides(), TransductionCodec(LETTERS, PHONES), optimizer=partial(torch.optim.SGD, lr=0.1))
    logger = TensorBoardRunLogger(str(tmp_path))
    trainer = pl.Trainer(
        max_steps=1,
        logger=logger,
        callbacks=[Embeddings()],
        default_root_dir=tmp_path,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        accelerator="cpu",
    )
    trainer.fit(task)
    logger.close()

    multiplexer = EventMultiplexer().AddRunsFromDirectory(str(tmp_path))
    multiplexer.Reload()
    provider = MultiplexerDataProvider(multiplexer, str(tmp_path))
    context = TBContext(logdir=str(tmp_path), multiplexer=multiplexer, data_provider=provider)
    client = Client(DispatcherMiddleware(NotFound(), ProjectorPlugin(context).get_plugin_apps()))
    assert json.loads(_get(client, "/runs")) == ["."]
    info = json.loads(_get(client, "/info?run=."))
    tables = {name: (labels, vectors) for name, labels, vectors in embedding_tables(task)}
    found = {one["tensorName"].split(":")[0]: one["tensorName"] for one in info["embeddings"]}
    assert found.keys() == tables.keys()
    for name, tensor in found.items():
        labels, vectors = tables[name]
        metadata = _get(client, f"/metadata?run=.&name={tensor}").decode()
        assert metadata == "\n".join(labels) + "\n"
        raw = _get(client, f"/tensor?run=.&name={tensor}")
        numbers = torch.frombuffer(bytearray(raw), dtype=torch.float32)
        assert torch.allclose(numbers.view(len(labels), -1), vectors)


def test_without_a_logger_nothing_is_written(tmp_path: Path) -> None:
    trainer = pl.Trainer(
        logger=False, default_root_dir=tmp_path, accelerator="cpu", enable_progress_bar=False
    )
    Embeddings().on_fit_end(trainer, Fitted(_one(), LanguageCodec(LETTERS, 5, ends=True)))
    assert list(tmp_path.iterdir()) == []
