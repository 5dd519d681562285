"""Damaged files from others are either read or rejected in one line."""

import io
import json
import logging
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from struct import pack, unpack_from
from zlib import crc32

import numpy as np
import pytest
import torch
import yaml
from damage import damaged, harmless, tampered
from folders import make_run
from google.protobuf.message import DecodeError
from PIL import Image
from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c
from tensorboard.plugins.base_plugin import TBContext
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from werkzeug.test import Client

from attention_lab.data import (
    CSVRegression,
    DataModule,
    GraphFiles,
    ImageFiles,
    Inflection,
    Labelled,
    LabelledImages,
    Pairs,
    Text,
    TimeSeries,
)
from attention_lab.data.reading.image_files import read_image, read_square
from attention_lab.errors import LabError
from attention_lab.interruption import resume, resume_option
from attention_lab.leaderboard import board
from attention_lab.report import report_page
from attention_lab.report.html_file import Heading, Run, make_page
from attention_lab.runs import run_folder
from attention_lab.tensorboard_plugin import AttentionRecord, decode, encode
from attention_lab.tensorboard_plugin.event_files import read_log
from attention_lab.tensorboard_plugin.plugin import AttentionPlugin
from attention_lab.tensorboard_plugin.writer import write_record

COUNTS = [pytest.param(25, id="some"), pytest.param(250, id="many", marks=pytest.mark.slow)]
PAIRS = [(a, b) for a in "abcdef" for b in "ghij"]
TABLES: dict[str, tuple[str, Callable[[str], DataModule]]] = {
    "pairs": ("".join(f"{a}{b}\t{b} {a}é\n" for a, b in PAIRS), lambda path: Pairs(file=path)),
    "inflection": (
        "".join(f"{a}{b}cd\t{a}{b}cdé\tN;{b}\n" for a, b in PAIRS),
        lambda path: Inflection(file=path, known_forms=1, hallucinate=9),
    ),
    "labelled": (
        "".join(f"{'xy'[n % 2]}\t{a}{b} c\n" for n, (a, b) in enumerate(PAIRS)),
        lambda path: Labelled(file=path, max_length=9),
    ),
    "series": (
        "".join(f"{'xy'[n % 2]}\t{n} 0.5; {n / 7} {n}e3\n" for n in range(30)),
        lambda path: TimeSeries(file=path),
    ),
    "archive.ts": (
        "@problemName x\n@data\n" + "".join(f"{n},0.5:{n / 7},{n}:{'xy'[n % 2]}\n" for n in range(30)),
        lambda path: TimeSeries(file=path),
    ),
    "csv": (
        "x,y,z\n" + "".join(f'{n},{n / 2},"{n}"\n' for n in range(30)),
        lambda path: CSVRegression(file=path, inputs=["x", "y"], target="z"),
    ),
    "nodes": (
        "".join(f"n{n}\t{'ab'[n % 2]}\t{n}\t0.5\n" for n in range(30)),
        lambda path: GraphFiles("edges", path),
    ),
    "edges": ("".join(f"n{n}\tn{n * 7 % 30}\n" for n in range(30)), lambda path: GraphFiles(path, "nodes")),
    "text": ("the quick brown fox\n" * 15, lambda path: Text(file=path)),
    "words": ("the quick brown fox\n" * 15, lambda path: Text(file=path, unit="words")),
    "pictures": (
        "".join(f"{n % 5}.png\t{a}{b}\n" for n, (a, b) in enumerate(PAIRS)),
        lambda path: ImageFiles(file=path),
    ),
    "photos": (
        "".join(f"{'xy'[n % 2]}\t{n % 5}.png\n" for n in range(30)),
        lambda path: LabelledImages(file=path, image_size=8),
    ),
}


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("kind", TABLES)
def test_data(kind: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, (text, _) in TABLES.items():
        Path(name).write_text(text)
    for number in range(5):
        Image.new("L", (32, 16), number).save(f"{number}.png")
    good, make = TABLES[kind]
    make(kind).setup()
    for content in damaged(good.encode(), count):
        Path(kind).write_bytes(content)
        with harmless(kind):
            data = make(kind)
            data.setup()
            for part in data.splits:
                part[torch.arange(min(2, len(part)))]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("form", ["png", "jpeg", "gif", "tiff"])
def test_pictures(form: str, count: int, tmp_path: Path) -> None:
    path, file = tmp_path / "picture", io.BytesIO()
    Image.fromarray(np.arange(512, dtype=np.uint8).reshape(16, 32)).save(file, form)
    for content in damaged(file.getvalue(), count):
        path.write_bytes(content)
        with harmless("picture"):
            read_image(path, 16, 8)
        with harmless("picture"):
            read_square(path, 16, colour=True)


def test_a_picture_that_claims_to_be_large_is_not_decoded(tmp_path: Path) -> None:
    path, file = tmp_path / "picture", io.BytesIO()
    Image.new("L", (1, 1)).save(file, "png")
    for size in (5_800, 1 << 14, 1 << 30):  # 5,800 x 5,800 takes 5 s and 500 MB
        header = b"IHDR" + pack(">II", size, size) + file.getvalue()[24:29]
        path.write_bytes(file.getvalue()[:12] + header + pack(">I", crc32(header)) + file.getvalue()[33:])
        with harmless("picture") as said:
            read_image(path, 16, 8)
        assert "too many pixels" in said[0]


FILES = ("config.yaml", "metrics.json", "predictions.tsv", "error.txt")
HYDRA = (".hydra/overrides.yaml", ".hydra/hydra.yaml", ".hydra/config.yaml")


@pytest.mark.long
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", [*FILES, *HYDRA])
def test_a_run_folder(
    name: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SECRET", "do not tell")
    monkeypatch.setattr(board, "draw_board", lambda *_: b"")  # pictures have their own tests
    metrics, options = {"test/token_error_rate": 0.25}, {"model": {"layers": 2, "sizes": [1, "x"]}}
    good, bad = (
        make_run(tmp_path / which, metrics, options=options, overrides=["model=seq2seq"], edits=[1, 0, 2, 1])
        for which in ("good", "bad")
    )
    plain = yaml.safe_load((bad / "config.yaml").read_text())
    path = bad / name
    content = path.read_bytes() if path.exists() else b"ValueError: why\nTraceback\n"
    readers: list[tuple[str, Callable[[], object]]] = [
        (path.name, lambda: report_page._read(run_folder.read_job(bad), "bad")),
        (path.name, lambda: resume_option.expand_resume([f"resume={bad}"], bad)),
        ("config.yaml", lambda: resume.saved_configuration(bad, "bad")),
        ("", lambda: resume.check_same_options(bad, plain)),  # its message names an option, not a file
        (path.name, lambda: resume.finished_results(bad)),
    ]
    secrets = [b"- x: ${oc.env:SECRET}\n", b"'': ${oc.env:SECRET}\nseed: ${oc.env:SECRET}\ntrainer: {}\n"]
    for number, one in enumerate((*secrets, *damaged(content, count))):
        path.write_bytes(one)
        for named, read in readers:
            with harmless(named):
                assert "do not tell" not in str(read())
        with harmless(""):
            jobs = run_folder.find_runs([tmp_path])
            if number % 8 == 0:
                board.write_leaderboard(tmp_path, jobs, board.View())
            page = make_page(report_page._heading([bad], [bad]), [])
        assert [job.error for job in jobs if job.folder == good] == [None], "a good run is lost"
        assert all(job.error is None or len(job.error.splitlines()) == 1 for job in jobs)
        out = capsys.readouterr().out + (tmp_path / "leaderboard.md").read_text(encoding="utf-8") + page
        assert "do not tell" not in out and "\x1b[2J" not in out and "<script>alert" not in out


@pytest.fixture(scope="module")
def record() -> tuple[bytes, bytes]:
    weights = np.full((1, 2, 2), 0.5, np.float32)
    return encode(AttentionRecord(weights, ["q", "r"], ["a", "b"], gold=np.array([0, 1])))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """An event file with a curve and three steps of attention records."""
    logging.getLogger("tensorboard").setLevel(logging.CRITICAL)
    events = EventFileWriter(str(tmp_path / "log"))

    class Log:
        def add_summary(self, summary: Summary, step: int) -> None:
            events.add_event(Event(summary=summary, step=step, wall_time=1.0))

    for step in range(3):
        Log().add_summary(Summary(value=[Summary.Value(tag="loss", simple_value=1.0)]), step)
        weights = np.full((1, 2, 2), 0.5, np.float32)
        write_record(Log(), "example", AttentionRecord(weights, ["q", "r"], ["a", "b"]), step)
    events.close()
    return next((tmp_path / "log").iterdir())


@pytest.mark.parametrize("count", [250])
def test_records(record: tuple[bytes, bytes], count: int) -> None:
    header, body = record
    chance = random.Random(0)
    changed = (json.dumps(tampered(json.loads(header), chance), default=str).encode() for _ in range(count))
    for one in (*damaged(header, count), *changed):
        with harmless(""), suppress(ValueError):
            decode(one, body)


def _frames(content: bytes) -> Iterator[bytes]:
    """The events in an event file."""
    while content:
        (length,) = unpack_from("<Q", content)
        yield content[12 : 12 + length]
        content = content[16 + length :]


def _framed(event: bytes) -> bytes:
    length = pack("<Q", len(event))
    return length + pack("<I", masked_crc32c(length)) + event + pack("<I", masked_crc32c(event))


def _logs(log: Path, count: int) -> Iterator[bytes]:
    """Damaged copies of the event file, and copies with damaged events but correct checksums."""
    content = log.read_bytes()
    yield from damaged(content, count)
    events = list(_frames(content))
    for number in range(len(events)):
        for one in damaged(events[number], count // len(events), seed=number):
            yield b"".join(map(_framed, [*events[:number], one, *events[number + 1 :]]))


@pytest.mark.parametrize("count", COUNTS)
def test_event_files(log: Path, count: int) -> None:
    for number, content in enumerate(_logs(log, count)):
        log.write_bytes(content)
        with harmless(""):
            found = read_log(log.parent)
            if number % 8 == 0:
                run = Run("x", curves=found.curves, records=found.records, samples=found.samples)
                make_page(Heading("x"), [run])


def test_events_around_a_damaged_one_are_not_lost(log: Path) -> None:
    events = list(_frames(log.read_bytes()))
    log.write_bytes(b"".join(map(_framed, [*events[:3], b"\xff\xff\x01", b"\xff", *events[3:]])))
    found = read_log(log.parent)
    assert len(found.curves["loss"]) == len(found.records["example"]) == 3


@pytest.mark.parametrize("length", [2**27 + 1, 2**33, 2**40, 2**62, 2**64 - 1])
def test_an_event_that_claims_to_be_enormous_is_not_allocated(length: int, log: Path) -> None:
    claimed = pack("<Q", length)
    intact = log.read_bytes()
    log.write_bytes(intact + claimed + pack("<I", masked_crc32c(claimed)) + b"x" * 100)
    with pytest.raises(
        LabError, match=rf"{log.name} cannot be read: it claims to have an event of {length} by"
    ):
        read_log(log.parent)
    log.write_bytes(intact + claimed + b"damaged")  # as by a fault of the disk
    assert len(read_log(log.parent).curves["loss"]) == 3


@pytest.mark.parametrize("count", COUNTS)
def test_the_tab(log: Path, count: int) -> None:
    for content in _logs(log, count):
        log.write_bytes(content)
        events = EventMultiplexer({"run": str(log.parent)}, tensor_size_guidance={"tensors": 0})
        with harmless(""):
            with suppress(DecodeError):  # TensorBoard logs it and serves the other runs
                events.Reload()
            provider = MultiplexerDataProvider(events, str(log.parent))
            plugin = AttentionPlugin(TBContext(data_provider=provider))
            for path in ("/tags", "/record"):
                app = plugin.get_plugin_apps()[path]
                answer = Client(app).get(f"{path}?run=run&tag=example&step=1")
                assert answer.status_code == 200 or 400 <= answer.status_code < 500
                assert answer.status_code == 200 or answer.json["error"]
