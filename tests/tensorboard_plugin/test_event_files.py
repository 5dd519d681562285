"""Unusual events in a run's event files, which may come from others."""

import logging
import os
import time
from pathlib import Path

import pytest
from tensorboard.compat.proto.event_pb2 import Event, SessionLog, TaggedRunMetadata
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto, VariantTensorDataProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from attention_lab.errors import LabError
from attention_lab.tensorboard_plugin import PLUGIN, event_sizes
from attention_lab.tensorboard_plugin.event_files import check_logs, read_log

OF_PLUGIN = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name=PLUGIN))
UNUSUAL = {
    "no record": Summary.Value(tag="x", metadata=OF_PLUGIN),
    "a number as record": Summary.Value(tag="x", metadata=OF_PLUGIN, simple_value=1.0),
    "buckets without limits": Summary.Value(tag="x", histo=HistogramProto(num=3, bucket=[1, 1, 1])),
}


def _write(folder: Path, *events: Event) -> Path:
    writer = EventFileWriter(str(folder))
    for event in events:
        writer.add_event(event)
    writer.close()
    return folder


def _loss(step: int) -> Event:
    return Event(step=step, summary=Summary(value=[Summary.Value(tag="loss", simple_value=1.0)]))


@pytest.mark.parametrize("name", UNUSUAL)
def test_what_is_no_record_is_left_out(name: str, tmp_path: Path) -> None:
    unusual = Event(step=2, summary=Summary(value=[UNUSUAL[name]]))
    log = read_log(_write(tmp_path, _loss(1), unusual, _loss(3)))
    assert [step for step, _ in log.curves["loss"]] == [1, 3] and log.records == {}


def test_tags_are_not_printed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """TensorBoard's warnings repeat tags, which could control the terminal."""
    with caplog.at_level(logging.INFO, logger="tensorboard"):
        graph = TaggedRunMetadata(tag="\x1b[31mred", run_metadata=b"x")
        read_log(_write(tmp_path, *[Event(tagged_run_metadata=graph)] * 2))
    assert not caplog.records


def test_a_folder_whose_name_is_not_utf8(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"a\xff")
    folder.mkdir()
    assert read_log(folder).curves == {}
    _write(tmp_path, _loss(1))
    next(tmp_path.glob("*tfevents*")).rename(folder / "tfevents")
    with pytest.raises(LabError, match="its name is not UTF-8: rename it"):
        read_log(folder)


@pytest.mark.parametrize("name", ["tfevents", "my.tfevents.1"])
def test_a_folder_whose_name_is_that_of_an_event_file(name: str, tmp_path: Path) -> None:
    """TensorBoard would open the folder as a file."""
    _write(tmp_path / name, _loss(1))
    with pytest.raises(LabError, match=rf"{name} contains event files, but .* an event file: rename it$"):
        read_log(tmp_path / name)


@pytest.mark.long
def test_many_restarts_take_no_quadratic_time(tmp_path: Path) -> None:
    """TensorBoard would look at all earlier events again at each: an hour for a file of 8 MB."""
    starts = [Event(step=9999, session_log=SessionLog(status=SessionLog.START))] * 4000
    folder = _write(tmp_path, *map(_loss, range(4000)), *starts, _loss(4000))
    start = time.process_time()
    assert [step for step, _ in read_log(folder).curves["loss"]] == list(range(4001))
    assert time.process_time() - start < 1


def _tensor(tensor: TensorProto) -> list[Summary.Value]:
    return [Summary.Value(tag="x", tensor=tensor)]


CROWDED = {
    "empty values": [Summary.Value()] * 600,
    "empty tensors": [Summary.Value(tensor=TensorProto())] * 300,
    "texts": _tensor(TensorProto(string_val=[b""] * 600)),
    "sizes": _tensor(TensorProto(tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim()] * 600))),
    "tensors in a tensor": _tensor(
        TensorProto(variant_val=[VariantTensorDataProto(tensors=[TensorProto()] * 600)])
    ),
    "points": [Summary.Value(tag="x", simple_value=1.0)] * 200,
}


@pytest.mark.parametrize("name", CROWDED)
def test_events_with_very_many_values_are_not_read(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty value takes two bytes in the file, and hundreds in memory."""
    monkeypatch.setattr(event_sizes, "MOST_FIELDS", 500)
    folder = _write(tmp_path, _loss(1), Event(summary=Summary(value=CROWDED[name])))
    with pytest.raises(LabError, match=r"tfevents\S+ cannot be read: it has more than 500 values; move it"):
        read_log(folder)


def test_values_are_counted_over_all_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_sizes, "MOST_FIELDS", 500)
    assert len(read_log(_write(tmp_path / "few", *map(_loss, range(70)))).curves["loss"]) == 70
    with pytest.raises(LabError, match="it has more than 500 values"):
        read_log(_write(tmp_path / "many", *map(_loss, range(110))))


def test_empty_events_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They take no memory, but each takes as long to read as any other."""
    monkeypatch.setattr(event_sizes, "MOST_FIELDS", 500)
    with pytest.raises(LabError, match="it has more than 500 values"):
        read_log(_write(tmp_path, *[Event()] * 501))


def test_very_many_event_files_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorBoard lists the folder again for each: eight minutes for 10,000 empty ones."""
    monkeypatch.setattr(event_sizes, "MOST_FILES", 3)
    for number in range(3):
        (tmp_path / f"tfevents.{number}").touch()
    assert read_log(tmp_path).curves == {}
    (tmp_path / "tfevents.3").touch()
    with pytest.raises(LabError, match=r"tfevents.3 cannot be read: it is one of more than 3 event files; "):
        read_log(tmp_path)


def test_very_many_tags_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For each tag, TensorBoard keeps a generator of random numbers."""
    monkeypatch.setattr(event_sizes, "MOST_TAGS", 50)
    tags = [Summary.Value(tag=str(number), simple_value=1.0) for number in range(51)]
    assert len(read_log(_write(tmp_path / "few", Event(summary=Summary(value=tags[:-1])))).curves) == 50
    with pytest.raises(LabError, match="it has more than 50 tags"):
        read_log(_write(tmp_path / "many", Event(summary=Summary(value=tags))))


@pytest.mark.long
def test_event_files_that_do_not_fit_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [_write(tmp_path / name, *map(_loss, range(2000))) for name in "abcdef"]
    monkeypatch.setattr("attention_lab.machine.usable_memory", lambda: 5 << 20)
    check_logs(folders[:1])
    with pytest.raises(LabError, match=r"[c-f]: .* takes about \d MiB of memory, .* has 5 MiB"):
        check_logs(folders)
