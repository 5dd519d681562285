"""Language modelling: learn to predict the next symbol, and continue a prompt."""

import random
from typing import Any

import torch
from torch import Tensor, nn

from attention_lab.argument_checks import check_counts
from attention_lab.attention import recording
from attention_lab.data.reading.batches import LanguageBatch
from attention_lab.data.reading.codecs import LanguageCodec
from attention_lab.errors import LabError
from attention_lab.metrics.fractions import Fraction
from attention_lab.models.decoding.sampling import Sampling, generate
from attention_lab.models.language import LanguageModel
from attention_lab.special_symbols import EOS, PAD
from attention_lab.tasks.model_checks import SYMBOLS, check_continuable, checked_logits
from attention_lab.tasks.observation import Observation, QueriesAndKeys, make_observation
from attention_lab.tasks.task import SplitName, Task, check_label_smoothing
from attention_lab.tasks.transduction import cross_entropy

LIMIT = 64
"""Maximum number of symbols of a text whose weights are shown."""
LONGEST = 10_000
"""Maximum number of symbols generated after a prompt; memory is reserved for all of them."""
LONGEST_TEXT = 1_000_000
"""Maximum number of characters of these symbols."""


class MeanLoss(Fraction):
    """Mean cross entropy, with every token weighted equally; NaN if it is NaN for any batch."""

    higher_is_better = False

    def update(self, loss: Tensor, tokens: Tensor) -> None:
        """Count a batch with this mean loss and number of tokens."""
        self.numerator += loss * tokens
        self.denominator += tokens


class Perplexity(MeanLoss):
    """`exp` of the mean cross entropy."""

    def compute(self) -> Tensor:
        """The perplexity so far."""
        return super().compute().exp()


class LanguageModeling(Task):
    """Trains with cross entropy on the next symbol; evaluates perplexity, `exp` of its mean over all symbols.

    A prompt is continued by sampling from the model; see `Sampling`. Samples depend on the number of the
    example and on `torch.initial_seed()`, which `seed=` sets, but not on the batch: the same prompts get the
    same continuations unless the seed changes.

    Args:
        model: the language model.
        codec: converts text to tensors and back.
        label_smoothing: share of the target spread over all symbols in training (1512.00567).
        temperature: divides the logits when sampling; 0 takes the most probable symbol.
        top_k: sample from this many of the most probable symbols; None for all.
        top_p: sample from the most probable symbols whose total probability is at least this; 1 for all.
        max_new_tokens: maximum number of symbols to generate after a prompt, at most `LONGEST`; fewer if
            they could have more than `LONGEST_TEXT` characters.
        options: see `Task`.
    """

    model: LanguageModel
    codec: LanguageCodec
    headlines = ("test/perplexity",)

    def __init__(
        self,
        model: LanguageModel,
        codec: LanguageCodec,
        *,
        label_smoothing: float = 0.0,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float = 1.0,
        max_new_tokens: int = 100,
        **options: Any,
    ) -> None:
        super().__init__(model, codec, **options)
        check_label_smoothing(label_smoothing)
        _check_max_new_tokens(max_new_tokens, codec)
        self.label_smoothing = label_smoothing
        self.sampling = Sampling(float(temperature), top_k, float(top_p))
        self.max_new_tokens = max_new_tokens
        self.measures = nn.ModuleDict(
            {
                f"{split}_{name}": metric()
                for split in ("validation", "test")
                for name, metric in (("loss", MeanLoss), ("perplexity", Perplexity))
            }
        )

    def setup(self, stage: str) -> None:
        """Check that the model, which may be user-defined, can be sampled from."""
        check_continuable(self.model)

    def training_step(self, batch: LanguageBatch, batch_idx: int) -> Tensor:
        """Cross entropy of each symbol given the symbols before it."""
        loss = cross_entropy(self._logits(batch), batch.tokens[:, 1:], self.label_smoothing)
        self.log_training_loss(loss, len(batch.tokens))
        return loss

    def validation_step(self, batch: LanguageBatch, batch_idx: int) -> None:
        """Loss and perplexity."""
        self._evaluate(batch, "validation")

    def test_step(self, batch: LanguageBatch, batch_idx: int) -> None:
        """Loss and perplexity."""
        self._evaluate(batch, "test")

    @torch.no_grad()
    def answer(self, batch: LanguageBatch) -> list[str]:
        """Each prompt with its continuation."""
        return [self.codec.decode(ids) for ids in self._continue(batch).cpu()]

    @torch.no_grad()
    def observe(self, batch: LanguageBatch) -> list[Observation]:
        """Each prompt with its continuation, and the weights over the first `LIMIT` symbols of both."""
        continued = self._continue(batch)
        with recording(self.model) as weights:
            self.model(continued[:, : min(LIMIT, self.model.length)])
        result = []
        for row, (ids, prompt, tokens, length) in enumerate(
            zip(
                continued.cpu(),
                batch.prompts.tolist(),
                batch.tokens.cpu(),
                batch.lengths.tolist(),
                strict=True,
            )
        ):
            read = ids[: min(LIMIT, self.model.length)]
            labels = self.codec.labels(read[(read != EOS) & (read != PAD)])  # nothing follows the end
            # Pictures show how a prompt is continued, for which there is no correct way.
            drawn = make_observation(
                weights,
                row,
                dict.fromkeys(weights, QueriesAndKeys(labels, labels)),
                input=self.codec.shown(tokens[:prompt]),
                output=self.codec.shown(ids[prompt:]),
                expected="",
            )
            expected = self.codec.shown(tokens) if prompt < length else ""
            result.append(drawn._replace(output=self.codec.shown(ids), expected=expected))
        return result

    def _continue(self, batch: LanguageBatch) -> Tensor:
        """Symbols `[B, T]`: each prompt and its continuation."""
        rows = []
        for number in batch.numbers.tolist():
            seed = random.Random(f"{torch.initial_seed()} {number}").getrandbits(63)
            generator = torch.Generator().manual_seed(seed)
            rows.append(torch.rand(self.max_new_tokens, dtype=torch.float64, generator=generator))
        symbols, uniform = len(self.codec.tokenizer.vocabulary), torch.stack(rows)
        return generate(self.model, batch.tokens, batch.prompts, uniform, self.sampling, symbols)

    def _logits(self, batch: LanguageBatch) -> Tensor:
        """Logits `[B, L, V]` of each symbol after the first."""
        logits, symbols = self.model(batch.tokens[:, :-1]), len(self.codec.tokenizer.vocabulary)
        return checked_logits(self.model, logits, [*batch.tokens[:, 1:].shape, symbols], SYMBOLS)

    def _evaluate(self, batch: LanguageBatch, split: SplitName) -> None:
        targets = batch.tokens[:, 1:]
        loss = cross_entropy(self._logits(batch), targets)
        for name in ("loss", "perplexity"):
            measure = self.measures[f"{split}_{name}"]
            measure.update(loss, (targets != PAD).sum())  # type: ignore[operator]
            self.log(f"{split}/{name}", measure, prog_bar=split == "validation")  # type: ignore[arg-type]


def _check_max_new_tokens(count: int, codec: LanguageCodec) -> None:
    """Raise LabError if a continuation of this many symbols could be too long."""
    check_counts("task", 1, max_new_tokens=count)
    if count > LONGEST:
        raise LabError(f"task.max_new_tokens must be at most {LONGEST}, got {count}")
    # A checkpoint's codec may be of another kind, which is reported after this.
    symbols = codec.tokenizer.vocabulary.symbols if isinstance(codec, LanguageCodec) else []
    longest = max(map(len, symbols), default=1)
    if count * longest > LONGEST_TEXT:
        raise LabError(
            f"task.max_new_tokens={count}: with a symbol of {longest:,} characters, an output "
            f"could have more than {LONGEST_TEXT:,}: choose at most {LONGEST_TEXT // longest}"
        )
