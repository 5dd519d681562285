"""How accurately a decoder reproduces early input, with and without attention."""

import math
from collections.abc import Sequence
from functools import partial
from itertools import chain
from statistics import mean, stdev
from typing import NamedTuple

import torch
import torch.nn.functional as F
from PIL.Image import Image
from torch import Tensor, nn

from attention_lab.attention import Dot, Mechanism
from attention_lab.errors import LabError
from attention_lab.models.seq2seq import Seq2Seq
from attention_lab.sizes import TransductionSizes
from attention_lab.theorems.finding import Figure, Finding, seeded
from attention_lab.viz.plots import draw_panels
from attention_lab.viz.plots.panels import Lines, Panel, Series

SPECIAL = 4
"""Ids that are not symbols."""
TESTED = 2000
"""Number of sequences on which a trained model is tested."""
ORDERS = ("backwards", "forwards")
"""The orders in which a sequence is written."""
MEMORIES = {"annotations": "attention", "final": "last state"}


class Arm(NamedTuple):
    """A model to be trained.

    Attributes:
        order: order of writing, see `ORDERS`.
        memory: memory option of `Seq2Seq`: `annotations` to attend to, or only the `final` state.
        hidden_size: hidden size of encoder and decoder.
    """

    order: str
    memory: str
    hidden_size: int


class MeanInterval(NamedTuple):
    """A mean over seeds, and half the width of its 95% interval by Student's t."""

    mean: float
    half: float

    def __str__(self) -> str:
        return f"{self.mean:.2f} ± {self.half:.2f}"

    def within_one(self) -> str:
        """The mean and the ends of its interval, clipped to values from 0 to 1."""
        return f"{self.mean:.2f} ({max(0, self.mean - self.half):.2f} to {min(1, self.mean + self.half):.2f})"


class EarlyInformation:
    """Early input is lost in a recurrent encoder without attention (1409.0473, section 1).

    A recurrent encoder reads random symbols, uniform and independent, and the decoder reproduces them. The
    decoder gets either only the encoder's last state, as its initial state and as every context (1406.1078),
    or all annotations to attend to. Encoder, decoder, number of parameters, data and training are the same;
    the score has no parameters. We measure the accuracy of each symbol given the correct earlier ones, which
    carry no information about it, against the number of symbols that were read after it.

    Symbols are written backwards, the last symbol first, and forwards. Backwards, early input has the
    longest distance from reading to writing (1409.3215, section 3.3, shortens distances by reversing the
    source); forwards, every symbol has the same distance. Only both together show whether it is reading early
    or writing late that costs a decoder without attention its accuracy. Training matters, too: with more
    steps the same state learns to hold more.

    Args:
        length: number of symbols in a sequence.
        symbols: number of different symbols.
        hidden_size: hidden size of the compared models.
        others: further sizes for which the model without attention is trained, backwards.
        steps: number of training steps, each on a batch of new sequences.
        batch_size: number of sequences in a batch.
        learning_rate: peak learning rate of Adam, with warm-up and cosine decay.
        seeds: number of repetitions, with new weights and sequences.
    """

    def __init__(
        self,
        length: int = 20,
        symbols: int = 8,
        hidden_size: int = 32,
        others: Sequence[int] = (16, 64),
        steps: int = 800,
        batch_size: int = 64,
        learning_rate: float = 0.01,
        seeds: int = 3,
    ) -> None:
        if length < 4 or symbols < 2 or min(hidden_size, steps, batch_size, *others) < 1:
            raise LabError(
                "theorem: length must be at least 4, symbols at least 2, and hidden_size, others, steps and "
                "batch_size at least 1"
            )
        if not 0 < learning_rate < math.inf:
            raise LabError(f"theorem.learning_rate={learning_rate} must be a number above 0")
        if seeds < 2:
            raise LabError(f"theorem.seeds={seeds}: an interval needs two seeds or more")
        self.quarter = length // 4  # number of compared symbols at either end
        self.length, self.symbols, self.hidden_size, self.others = length, symbols, hidden_size, others
        self.steps, self.batch_size, self.learning_rate, self.seeds = steps, batch_size, learning_rate, seeds

    def run(self, seed: int) -> Finding:
        """Train every model with the seeds `seed`, `seed + 1`, ..."""
        pairs = [
            [Arm(order, memory, self.hidden_size) for memory in ("annotations", "final")] for order in ORDERS
        ]
        compared, others = [*chain(*pairs)], [Arm("backwards", "final", size) for size in self.others]
        runs = {
            arm: [self._accuracies(arm, seed + more) for more in range(self.seeds)]
            for arm in (*compared, *others)
        }
        early = {arm: [mean(one[-self.quarter :]) for one in found] for arm, found in runs.items()}
        late = {arm: [mean(one[: self.quarter]) for one in found] for arm, found in runs.items()}
        lost = {blind.order: mean_interval(_minus(early[seeing], early[blind])) for seeing, blind in pairs}
        falls = {blind.order: mean_interval(_minus(late[blind], early[blind])) for _, blind in pairs}
        curves = {arm: [mean_interval(at) for at in zip(*found, strict=True)] for arm, found in runs.items()}
        ends = {f"first {self.quarter} read": early, f"last {self.quarter} read": late}
        return Finding(
            title="Early information is lost without attention",
            claim="An encoder that passes on only its last state loses much of what it read first; a decoder "
            "that attends to all annotations loses little of it, however long ago it was read.",
            source="1409.0473, section 1",
            columns=("symbols read after it", *map(_name, compared)),
            rows=[
                *([str(at), *(curves[arm][at].within_one() for arm in compared)] for at in self._lags()),
                *(
                    [end, *(mean_interval(of[arm]).within_one() for arm in compared)]
                    for end, of in ends.items()
                ),
            ],
            criterion=f"fewer of the {self.quarter} symbols read first are right without attention than with "
            "it, backwards and forwards: both differences are above 0 with their 95% intervals over "
            f"{self.seeds} seeds",
            holds=all(found.mean - found.half > 0 for found in lost.values()),
            figures=(Figure("early_information", partial(self._draw, curves)),),
            notes=(
                f"accuracy lost without attention on the first {self.quarter} symbols read: "
                + ", ".join(f"{order} {found}" for order, found in lost.items()),
                *(_early_or_late(order, found) for order, found in falls.items()),
                *(
                    f"{_name(arm)}: "
                    + ", ".join(f"{end} {mean_interval(of[arm]).within_one()}" for end, of in ends.items())
                    for arm in others
                ),
                self._setting(),
            ),
        )

    def _accuracies(self, arm: Arm, seed: int) -> list[float]:
        """Train one model; returns the accuracy of symbols with 0, 1, 2, ... later symbols in the source."""
        with seeded(seed):
            model = self._model(arm)
            self._train(model, arm.order)
            model.eval()
            with torch.no_grad():
                source, target = self._sequences(arm.order, TESTED)
                right = (self._logits(model, source, target).argmax(-1) == target).double().mean(0)
        accuracies: list[float] = (right if arm.order == "backwards" else right.flip(0)).tolist()
        return accuracies

    def _model(self, arm: Arm) -> Seq2Seq:
        vocabulary = SPECIAL + self.symbols
        return Seq2Seq(
            Mechanism(Dot),
            TransductionSizes(vocabulary, vocabulary),
            embedding_size=arm.hidden_size,
            hidden_size=arm.hidden_size,
            cell="gru",  # a GRU passes on all of its state, whereas an LSTM also has a cell
            wiring="luong",
            residual=False,
            bidirectional=False,
            memory=arm.memory,
        )

    def _sequences(self, order: str, number: int) -> tuple[Tensor, Tensor]:
        """New sequences and their targets."""
        source = torch.randint(SPECIAL, SPECIAL + self.symbols, (number, self.length))
        return source, source.flip(1) if order == "backwards" else source

    def _logits(self, model: Seq2Seq, source: Tensor, target: Tensor) -> Tensor:
        logits: Tensor = model(source, torch.full((len(source),), self.length), target)
        return logits

    def _train(self, model: Seq2Seq, order: str) -> None:
        optimizer = torch.optim.Adam(model.parameters(), self.learning_rate)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, self.learning_rate, self.steps, pct_start=0.1, cycle_momentum=False
        )
        for _ in range(self.steps):
            source, target = self._sequences(order, self.batch_size)
            loss = F.cross_entropy(self._logits(model, source, target).flatten(0, 1), target.flatten())
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()

    def _lags(self) -> list[int]:
        """The numbers of later symbols that have a row in the table."""
        return sorted({*range(0, self.length, max(1, self.length // 8)), self.length - 1})

    def _setting(self) -> str:
        """The training setup, as a note below the table."""
        sizes = {memory: self._model(Arm(ORDERS[0], memory, self.hidden_size)) for memory in MEMORIES}
        parameters = [sum(p.numel() for p in model.parameters()) for model in sizes.values()]
        return (
            f"{self.length} symbols of {self.symbols} kinds, guessing gets {1 / self.symbols:.3g}; "
            f"one-way GRUs, parameters {' and '.join(f'{n:,}' for n in parameters)} at hidden "
            f"{self.hidden_size}; {self.steps:,} steps of {self.batch_size}; {self.seeds} seeds, each tested "
            f"on {TESTED:,} sequences"
        )

    def _draw(self, curves: dict[Arm, list[MeanInterval]]) -> Image:
        def line(name: str, arm: Arm, colour: int) -> Series:
            after, curve = list(range(self.length)), curves[arm]
            intervals = [(at.mean - at.half, at.mean + at.half) for at in curve]
            return Series(name, after, [at.mean for at in curve], intervals, colour=colour)

        of_accuracy = partial(
            Lines,
            x_label="symbols read after it",
            ticks=range(0, self.length, max(1, self.length // 4)),
            within=(0.0, 1.0),
        )
        panels: list[Panel] = [
            of_accuracy(
                [
                    line(name, Arm(order, memory, self.hidden_size), colour)
                    for colour, (memory, name) in enumerate(MEMORIES.items())
                ],
                f"Written {order}",
                y_label="accuracy" if order == ORDERS[0] else "",
            )
            for order in ORDERS
        ]
        of_sizes = [
            line(
                f"hidden {size}",
                Arm("backwards", "final", size),
                1 if size == self.hidden_size else 2 + place,
            )
            for place, size in enumerate(sorted({self.hidden_size, *self.others}))
        ]
        panels.append(of_accuracy(of_sizes, "Last state alone, backwards"))
        note = f"{self.length} random symbols of {self.symbols} kinds; hidden {self.hidden_size}; "
        note += f"means of {self.seeds} seeds, 95% intervals; guessing gets {1 / self.symbols:.3g}"
        return draw_panels(panels, title="Accuracy on symbols read early", note=note)


def mean_interval(values: Sequence[float]) -> MeanInterval:
    """The mean of two or more independent values, and half the width of its 95% interval."""
    from scipy.special import stdtrit

    count = len(values)
    return MeanInterval(mean(values), float(stdtrit(count - 1, 0.975)) * stdev(values) / math.sqrt(count))


def _early_or_late(order: str, fall: MeanInterval) -> str:
    """Whether the first symbols read are lost more often than the last, without attention."""
    if fall.mean - fall.half > 0:
        verdict = "the first symbols read are lost more often than the last"
    elif fall.mean + fall.half < 0:
        verdict = "the first symbols read are retained better than the last"
    else:
        verdict = "no significant difference between the first and the last symbols read"
    return f"{order}, without attention: {verdict} (last minus first: {fall})"


def _minus(values: Sequence[float], others: Sequence[float]) -> list[float]:
    return [one - other for one, other in zip(values, others, strict=True)]


def _name(arm: Arm) -> str:
    return f"{MEMORIES[arm.memory]} {arm.hidden_size}, {arm.order}"
