"""Each oddity of the data files is reported in one line: in training, in a test, and once in a sweep."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]
SMALL = ["model.embedding_size=4", "model.hidden_size=4", "trainer.max_epochs=1", "pictures=0", "logger=none"]


@pytest.mark.long
def test_shared_examples_are_reported_in_one_line(command: Command, tmp_path: Path) -> None:
    for name, rows in {"train": "ab", "dev": "bc", "test": "d"}.items():
        (tmp_path / f"{name}.tsv").write_text("".join(f"{row}x\t{row}\n" for row in rows))
    files = ["train_file=train", "validation_file=dev", "test_file=test"]
    data = ["data=pairs", *(f"data.{one}.tsv" for one in files)]
    shared = "Warning: 1 of 2 examples in dev.tsv is also in train.tsv\n"
    dev, test = (
        f"Warning: 1 source symbol in {name}.tsv never occurs in training and is read as unknown: '{symbol}' "
        f"(in {share} examples, first in line {line}); 1 target symbol in {name}.tsv never occurs in "
        f"training and is never generated unless copied: '{symbol}' (in {share} examples, "
        f"first in line {line})\n"
        for name, symbol, share, line in (("dev", "c", "1 of 2", 2), ("test", "d", "1 of 1", 1))
    )
    said = shared + dev + test
    done = command("model=seq2seq", *data, *SMALL)
    assert (done.status, done.err) == (0, said)
    tested = command("stage=test", f"ckpt_path={done.folder}/checkpoints/best.ckpt", "pictures=0")
    assert (tested.status, tested.err) == (0, shared + test)
    swept = command("-m", "model=seq2seq", *data, *SMALL, "seed=1,2")
    assert (swept.status, swept.err) == (0, said)
