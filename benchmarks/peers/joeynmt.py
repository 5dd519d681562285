"""Train a recurrent model with JoeyNMT's own code: its data, batches, model, loss and step, unchanged.

Its requirements pin old versions of packages that training does not need, so install it with
`pip install --no-deps joeynmt sentencepiece subword-nmt sacrebleu portalocker regex tabulate colorama lxml`.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from benchmarks.measuring.harness import Work

Pair = tuple[Sequence[str], Sequence[str]]


@dataclass(frozen=True)
class Recipe:
    """A model of JoeyNMT and how it is trained.

    Args:
        attention: `bahdanau` (additive) or `luong` (general); both with input feeding, JoeyNMT's default.
        size: size of the embeddings.
        hidden: size of the states; each direction of the encoder has half of it.
        batch: pairs in a batch; they are drawn at random, as is JoeyNMT's default.
        dropout: dropout, in the same places as in our model.
    """

    attention: str
    size: int
    hidden: int
    batch: int
    dropout: float


def joeynmt_epoch(pairs: Sequence[Pair], recipe: Recipe, device: torch.device) -> Work:
    """The work is an epoch as in JoeyNMT's `TrainManager.train_and_validate`, without the logging.

    Args:
        pairs: symbols of each source and target.
        recipe: the model and how to train it.
        device: the device.
    """
    with TemporaryDirectory() as name, _silence():
        folder = Path(name)
        _write(pairs, folder)
        manager, data = _build(_config(recipe, folder), folder, device)
    model = manager.model
    batches = data.make_iter(
        batch_size=recipe.batch, batch_type="sentence", seed=1, shuffle=True, device=device,
        eos_index=model.eos_index, pad_index=model.pad_index,
    )  # fmt: skip

    def epoch() -> Sequence[Tensor]:
        model.train()
        model.zero_grad()
        for one in batches:
            manager._train_step(one)
            manager.clip_grad_fun(parameters=model.parameters())
            manager.optimizer.step()
            model.zero_grad()
        return ()

    return epoch


@contextmanager
def _silence() -> Iterator[None]:
    """Hide the page of output that JoeyNMT prints about what it reads and builds."""
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def _write(pairs: Sequence[Pair], folder: Path) -> None:
    """Write the two files that JoeyNMT reads, with a line for each pair."""
    for side, name in enumerate(("src", "trg")):
        lines = (f"{' '.join(pair[side])}\n" for pair in pairs)
        (folder / f"train.{name}").write_text("".join(lines), encoding="utf-8")


def _build(config: dict[str, Any], folder: Path, device: torch.device) -> tuple[Any, Any]:
    """JoeyNMT's training manager with the model, and its data."""
    from joeynmt.config import parse_global_args
    from joeynmt.data import load_data
    from joeynmt.model import build_model
    from joeynmt.training import TrainManager

    parts = parse_global_args(config, rank=0, mode="train")
    source, target, data, *_ = load_data(parts.data, datasets=["train"])
    model = build_model(parts.model, src_vocab=source, trg_vocab=target).to(device)
    model.loss_function = (parts.train.loss, parts.train.label_smoothing)
    manager = TrainManager(
        rank=0, model=model, model_dir=folder, device=device, autocast=parts.autocast, train_args=parts.train
    )
    manager.tb_writer.close()
    # Its own builder does not offer the fused optimiser that ours uses.
    manager.optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, fused=True)
    return manager, data


def _config(recipe: Recipe, folder: Path) -> dict[str, Any]:
    """The configuration that JoeyNMT would read from YAML, with the data in the folder."""
    sides = {
        name: {"lang": name, "level": "word", "lowercase": False, "max_length": 1000}
        for name in ("src", "trg")
    }
    layers = {
        "rnn_type": "lstm",
        "num_layers": 1,
        "dropout": recipe.dropout,
        "embeddings": {"embedding_dim": recipe.size, "dropout": recipe.dropout},
    }
    return {
        "name": "benchmark",
        "model_dir": str(folder),
        "use_cuda": False,  # it gets the device from us
        "data": {"train": str(folder / "train"), "dataset_type": "plain", **sides},
        "training": {
            "batch_size": recipe.batch,
            "batch_type": "sentence",
            "normalization": "tokens",
            "clip_grad_norm": 1.0,
            "scheduling": "decaying",  # by epochs; a schedule is required
        },
        "testing": {},
        "model": {
            "encoder": {
                "type": "recurrent",
                "bidirectional": True,
                "hidden_size": recipe.hidden // 2,
                **layers,
            },
            "decoder": {
                "type": "recurrent",
                "hidden_size": recipe.hidden,
                "hidden_dropout": recipe.dropout,
                "attention": recipe.attention,
                "input_feeding": True,
                "init_hidden": "bridge",
                **layers,
            },
        },
    }
