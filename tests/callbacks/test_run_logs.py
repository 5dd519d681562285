"""The tables of a resumed run, which may come from others, are read in limited time and memory."""

from pathlib import Path

import pytest
from pytorch_lightning.loggers import CSVLogger

from attention_lab.callbacks import run_logs
from attention_lab.callbacks.run_logs import mark, rewind
from attention_lab.errors import LabError


@pytest.fixture
def logger(tmp_path: Path) -> CSVLogger:
    logger = CSVLogger(tmp_path, name="", version="")
    logger.log_metrics({"a": 1.0, "b": 2.0}, 0)
    logger.log_metrics({"a": 3.0}, 1)
    return logger


def _write(logger: CSVLogger, content: bytes) -> None:
    Path(logger.log_dir, "metrics.csv").write_bytes(content)


def test_rows_after_the_mark_are_left_out(logger: CSVLogger) -> None:
    marks = mark([logger])
    assert marks == {"metrics.csv": 2}
    _write(logger, Path(logger.log_dir, "metrics.csv").read_bytes() + b"5.0,6.0,2\n")
    rewind([logger], marks)
    assert logger.experiment.metrics == [{"a": "1.0", "b": "2.0", "step": "0"}, {"a": "3.0", "step": "1"}]


@pytest.mark.long
def test_many_short_rows_below_many_columns_take_no_quadratic_time(logger: CSVLogger) -> None:
    count = 200_000  # whose product would take most of an hour
    _write(logger, b",".join(b"%d" % number for number in range(count)) + b"\n" + b"1\n" * count)
    rewind([logger], {"metrics.csv": count})
    assert len(logger.experiment.metrics) == count


def test_short_rows_that_would_be_written_with_every_column_are_refused(logger: CSVLogger) -> None:
    """The logger writes each row with all columns: 400 MB for this file of 200 kB."""
    names = b",".join(b"%d" % number for number in range(20_000))
    _write(logger, names + b"\n" + b",".join([b"1"] * 20_000) + b"\n" + b"1\n" * 20_000)
    with pytest.raises(LabError, match=r"metrics\.csv cannot be read: its rows are shorter than its header"):
        rewind([logger], {"metrics.csv": 10**9})


def test_the_last_row_may_have_been_cut_off(logger: CSVLogger) -> None:
    _write(logger, b"a,b,step\n1.0,2.0,0\n3.0")
    rewind([logger], {"metrics.csv": 2})
    assert logger.experiment.metrics == [{"a": "1.0", "b": "2.0", "step": "0"}, {"a": "3.0"}]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"a\n1\n1\n", "it is larger than 5 bytes"),
        (b"a\n\xff\n", "'utf-8' codec can't decode"),
        (b"a\n" + b"1" * 200_000, "field larger than field limit"),
    ],
)
def test_a_table_that_cannot_be_read_is_named(
    content: bytes, problem: str, logger: CSVLogger, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = 500 if len(content) < 10 else 10**9
    monkeypatch.setattr(run_logs, "usable_memory", lambda: memory)
    _write(logger, content)
    with pytest.raises(LabError, match=f"metrics.csv cannot be read: {problem}"):
        rewind([logger], {"metrics.csv": 9})
