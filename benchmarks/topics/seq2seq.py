"""Training a recurrent seq2seq model: JoeyNMT, the same mathematics here, and this package's default."""

from collections.abc import Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from attention_lab.attention import Additive, General, Mechanism, Score
from attention_lab.data import CMUDict, Reverse
from attention_lab.data.transduction import Example, TransductionData
from attention_lab.models import Seq2Seq
from benchmarks.measuring.harness import Comparison, Method, Work
from benchmarks.peers.joeynmt import Recipe, joeynmt_epoch
from benchmarks.peers.plain_step import plain_step

WORDS, BATCH, DROPOUT = 3600, 64, 0.2


def comparisons(device: torch.device, quick: bool) -> Iterator[Comparison]:
    """An epoch on the same pairs with each of JoeyNMT's two attentions."""
    data: TransductionData = CMUDict(size=WORDS, batch_size=BATCH)
    if quick:
        data = Reverse(train_size=8, validation_size=1, test_size=1, max_length=4, batch_size=4)
    size, hidden = (4, 8) if quick else (128, 256)
    examples = data.examples().train
    for score, theirs in ((Additive, "bahdanau"), (General, "luong")):
        yield _comparison(data, examples, score, theirs, size, hidden, device)


def _comparison(
    data: TransductionData,
    examples: Sequence[Example],
    score: type[Score],
    theirs: str,
    size: int,
    hidden: int,
    device: torch.device,
) -> Comparison:
    ours = partial(_epoch, data, score, size, hidden, device)
    batch = data.batch_size or len(examples)
    recipe = Recipe(theirs, size, hidden, batch, DROPOUT)
    peer = partial(joeynmt_epoch, [(one.source, one.target) for one in examples], recipe, device)
    return Comparison(
        f"{score.__name__} score, {len(examples):,} pairs, batch {batch}, embedding {size}, hidden {hidden}",
        [
            Method("JoeyNMT: attends step by step, input feeding", peer, needs="joeynmt", exact=False),
            Method("ours: the same, `model.input_feeding=true`", partial(ours, True), exact=False),
            Method("ours, default: no feeding, whole target at once", partial(ours, False), exact=False),
        ],
        note=f"A bidirectional LSTM and an LSTM with attention, dropout {DROPOUT}, clipped gradients, fused "
        "Adam; tokens are those of the targets with the end symbol, without padding. JoeyNMT samples pairs; "
        "our batches have similar lengths. Without feeding, no step depends on what the previous one "
        "attended to: all steps are one call of the recurrent layer and one of the attention.",
        work=(sum(len(one.target) + 1 for one in examples), "tokens/s"),
    )


def _epoch(
    data: TransductionData, score: type[Score], size: int, hidden: int, device: torch.device, feeding: bool
) -> Work:
    """An epoch as a plain PyTorch loop; for the overhead of Lightning see `training`."""
    data.setup()
    torch.manual_seed(1)
    options = {"embedding_size": size, "hidden_size": hidden, "wiring": "luong", "dropout": DROPOUT}
    model = Seq2Seq(Mechanism(score), data.sizes, input_feeding=feeding, **options).to(device)  # type: ignore[arg-type]
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, fused=True)
    batches = data.train_dataloader()

    def epoch() -> Sequence[Tensor]:
        model.train()
        for batch in batches:
            plain_step(model, batch, optimizer, 1.0, device)
        return ()

    return epoch
