"""Untrained models that write sequences, with the configuration from which they can be rebuilt."""

from string import ascii_lowercase
from typing import Any

import torch

from attention_lab.data.reading.codecs import TransductionCodec
from attention_lab.data.reading.vocabulary import Notation, Tokenizer, Vocabulary
from attention_lab.experiment.build import make_task
from attention_lab.tasks import Transduction

LETTERS = Tokenizer(Notation("characters", lowercase=True), Vocabulary(list("'" + ascii_lowercase)))
PHONES = Tokenizer(Notation("spaces"), Vocabulary(["AH", "B", "EH", "HH", "IY", "L", "OW", "S", "UW", "Y"]))
MECHANISM: dict[str, Any] = {
    "scoring": {"_target_": "attention_lab.attention.Additive", "_partial_": True},
    "normalizer": {"_target_": "attention_lab.attention.Softmax", "_partial_": True},
    "pooling": {"_target_": "attention_lab.attention.Soft", "_partial_": True},
    "window": {"_target_": "attention_lab.attention.Global", "_partial_": True},
}
SEQ2SEQ: dict[str, Any] = {
    "needs": "transduction",
    "_target_": "attention_lab.models.Seq2Seq",
    "embedding_size": 6,
    "hidden_size": 8,
}
DATA: dict[str, Any] = {
    "kind": "transduction",
    "_target_": "attention_lab.data.CMUDict",
    "size": 40,
    "stress": False,
    "validation_size": 5,
    "test_size": 30,
}


def transduction(
    model: dict[str, Any] = SEQ2SEQ,
    mechanism: dict[str, Any] = MECHANISM,
    target: Tokenizer = PHONES,
    **options: Any,
) -> Transduction:
    """A task as a checkpoint has it, with weights of sizes at which outputs differ from word to word."""
    codec = TransductionCodec(LETTERS, target)
    config = {
        "model": model,
        "task": {"_target_": "attention_lab.tasks.Transduction", **options},
        **mechanism,
        "data": DATA,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        task = make_task(config, codec.sizes, codec, trainable=False)
        for parameter in task.model.parameters():
            parameter.data.mul_(3)
    assert isinstance(task, Transduction)
    return task
