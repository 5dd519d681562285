"""The least that `add_attention` writes to: an event file."""

from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter


class Log:
    """An event file in a folder."""

    def __init__(self, folder: Path) -> None:
        self.file = EventFileWriter(str(folder))

    def add_summary(self, summary: Summary, step: int) -> None:
        self.file.add_event(Event(summary=summary, step=step, wall_time=1.0 + step))

    def close(self) -> None:
        self.file.close()
