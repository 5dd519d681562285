"""BLEU and chrF of output texts, by sacreBLEU (1804.08771)."""

from collections.abc import Sequence
from importlib.util import find_spec
from itertools import zip_longest

from attention_lab.errors import LabError


def check_sacrebleu() -> None:
    """Raise LabError if sacreBLEU is not installed."""
    if find_spec("sacrebleu") is None:
        raise LabError("task.text_metrics=true needs the package sacrebleu: pip install -e '.[text]'")


def text_scores(outputs: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Corpus BLEU and chrF2, both from 0 to 100; empty if there are no outputs.

    BLEU is that of Papineni et al. 2002, for up to four words and with the brevity penalty, on the words of
    sacreBLEU's tokenizer 13a. chrF2 is that of Popović 2015, for up to six characters, with recall twice as
    important as precision.

    Args:
        outputs: the texts to score.
        references: the acceptable texts for each output, one or more.
    """
    if not outputs:
        return {}
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    streams = [list(stream) for stream in zip_longest(*references)]  # None where one has fewer
    return {
        "bleu": float(BLEU().corpus_score(list(outputs), streams).score),
        "chrf": float(CHRF().corpus_score(list(outputs), streams).score),
    }
