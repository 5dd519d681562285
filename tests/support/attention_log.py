"""The least that `add_attention` writes to: an event file."""

from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter


class Log:
    """An event file in a folder, whose first step was written at the time `start`."""

    def __init__(self, folder: Path, start: float = 1.0) -> None:
        self.file = EventFileWriter(str(folder))
        self.start = start

    def add_summary(self, summary: Summary, step: int) -> None:
        self.file.add_event(Event(summary=summary, step=step, wall_time=self.start + step))

    def close(self) -> None:
        self.file.close()
