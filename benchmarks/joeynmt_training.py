"""JoeyNMT's own training of a recurrent model: its data, batches, model, loss and step, unchanged.

Its requirements pin old versions of others, of which training needs none:
`pip install --no-deps joeynmt sentencepiece subword-nmt sacrebleu portalocker regex tabulate colorama lxml`.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from benchmarks.harness import Work

Pair = tuple[Sequence[str], Sequence[str]]


def joeynmt_epoch(
    pairs: Sequence[Pair],
    *,
    attention: str,
    size: int,
    hidden: int,
    batch: int,
    dropout: float,
    device: torch.device,
) -> Work:
    """A piece of work is an epoch as in its `TrainManager.train_and_validate`, without the logging.

    Args:
        pairs: symbols of each source and target.
        attention: `bahdanau` (additive) or `luong` (general); both with input feeding, JoeyNMT's default.
        size: of the embeddings.
        hidden: size of the states, half of it for each direction of the encoder.
        batch: pairs in a batch; they are drawn at random, as is JoeyNMT's default.
        dropout: where ours has it.
        device: where the model is trained.
    """
    from joeynmt.config import parse_global_args
    from joeynmt.data import load_data
    from joeynmt.model import build_model
    from joeynmt.training import TrainManager

    logging.disable(logging.WARNING)  # it tells a page of what it reads and builds
    with TemporaryDirectory() as name:
        folder = Path(name)
        config = _config(pairs, folder, attention, size, hidden, batch, dropout)
        parts = parse_global_args(config, rank=0, mode="train")
        source, target, train, *_ = load_data(parts.data, datasets=["train"])
        model = build_model(parts.model, src_vocab=source, trg_vocab=target).to(device)
        model.loss_function = (parts.train.loss, parts.train.label_smoothing)
        manager = TrainManager(
            rank=0,
            model=model,
            model_dir=folder,
            device=device,
            autocast=parts.autocast,
            train_args=parts.train,
        )
        manager.tb_writer.close()
    logging.disable(logging.NOTSET)
    # Its own builder knows no fused one, which ours has.
    manager.optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, fused=True)
    batches = train.make_iter(
        batch_size=batch, batch_type="sentence", seed=1, shuffle=True, device=device,
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


def _config(
    pairs: Sequence[Pair], folder: Path, attention: str, size: int, hidden: int, batch: int, dropout: float
) -> dict[str, Any]:
    """The configuration of a run that JoeyNMT would read from YAML; the data is written into the folder."""
    for side, name in enumerate(("src", "trg")):
        lines = (f"{' '.join(pair[side])}\n" for pair in pairs)
        (folder / f"train.{name}").write_text("".join(lines), encoding="utf-8")
    sides = {
        name: {"lang": name, "level": "word", "lowercase": False, "max_length": 1000}
        for name in ("src", "trg")
    }
    layers = {
        "rnn_type": "lstm",
        "num_layers": 1,
        "dropout": dropout,
        "embeddings": {"embedding_dim": size, "dropout": dropout},
    }
    return {
        "name": "benchmark",
        "model_dir": str(folder),
        "use_cuda": False,  # it is given the device
        "data": {"train": str(folder / "train"), "dataset_type": "plain", **sides},
        "training": {
            "batch_size": batch,
            "batch_type": "sentence",
            "normalization": "tokens",
            "clip_grad_norm": 1.0,
            "scheduling": "decaying",  # by epochs; it has to have one
        },
        "testing": {},
        "model": {
            "encoder": {"type": "recurrent", "bidirectional": True, "hidden_size": hidden // 2, **layers},
            "decoder": {
                "type": "recurrent",
                "hidden_size": hidden,
                "hidden_dropout": dropout,
                "attention": attention,
                "input_feeding": True,
                "init_hidden": "bridge",
                **layers,
            },
        },
    }
