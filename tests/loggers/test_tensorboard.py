"""The run's TensorBoard file: where it is, and what its scalars are called."""

from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.custom_scalar.layout_pb2 import Layout

from attention_lab.callbacks.run_logs import mark, rewind
from attention_lab.loggers import TensorBoardRunLogger
from attention_lab.loggers.tensorboard import scalar_tags
from attention_lab.tensorboard_plugin.event_files import event_files, event_folder


def test_events_lie_in_the_folder_of_the_run_which_gives_it_its_name(tmp_path: Path) -> None:
    run = tmp_path / "logs" / "seq2seq"
    logger = TensorBoardRunLogger(str(run))
    logger.log_metrics({"train/loss": 1.0}, 0)
    logger.close()
    assert event_folder(run) == run and len(event_files(run)) == 1
    assert [path.name for path in run.iterdir()] == [event_files(run)[0].name]


@pytest.mark.parametrize("name", ["$WHERE", "${WHERE}"])
def test_nothing_in_the_name_of_the_folder_is_replaced(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder from others may be called anything, and be next to a link called as a variable's value."""
    monkeypatch.setenv("WHERE", "elsewhere")
    logger = TensorBoardRunLogger(str(tmp_path / name))
    logger.log_metrics({"train/loss": 1.0}, 0)
    logger.close()
    assert Path(logger.log_dir) == tmp_path / name and len(event_files(tmp_path / name)) == 1
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_run_that_kept_its_events_in_a_folder_goes_on_there(tmp_path: Path) -> None:
    earlier = TensorBoardRunLogger(str(tmp_path / "tensorboard"))
    earlier.log_metrics({"train/loss": 1.0}, 0)
    earlier.log_metrics({"train/loss": 2.0}, 1)
    marks = mark([earlier])
    earlier.log_metrics({"train/loss": 3.0}, 2)
    earlier.close()
    resumed = TensorBoardRunLogger(str(tmp_path))
    rewind([resumed], marks)
    resumed.log_metrics({"train/loss": 4.0}, 2)
    resumed.close()
    assert event_folder(tmp_path) == tmp_path / "tensorboard" and not event_files(tmp_path)
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [event.value for event in events.Scalars("train/loss")] == [1, 2, 4]


def test_things_named_like_event_files_are_left_out(tmp_path: Path) -> None:
    logger = TensorBoardRunLogger(str(tmp_path))
    (tmp_path / "events.out.tfevents.1").mkdir()
    (tmp_path / "events.out.tfevents.2").symlink_to("events.out.tfevents.2")
    assert mark([logger]) == {}
    rewind([logger], {"events.out.tfevents.1": 0, "events.out.tfevents.2": 0})
    assert [path.name for path in tmp_path.iterdir()] == ["events.out.tfevents.1"]


def test_losses_and_metrics_come_first_and_nothing_is_in_their_way() -> None:
    logged = {"epoch": 3, "lr-AdamW": 0.1, "lr-AdamW/pg2": 0.2, "train/loss": 1, "validation/loss": 2}
    logged |= {"test/rate": 0.5, "test/rate_low": 0.4, "test/rate_high": 0.6, "test/too_low": 7}
    tags = sorted(scalar_tags(logged))
    assert tags == [
        *("test/rate", "test/too_low"),
        *("train/loss", "train/lr", "train/lr/pg2", "validation/loss"),
    ]


def test_charts_have_a_line_for_each_tag(tmp_path: Path) -> None:
    logger = TensorBoardRunLogger(str(tmp_path))
    logger.log_charts({"entropy": {"decoder layer 1": ["weights/heads/entropy/decoder layer 1 head 1"]}})
    logger.close()
    events = EventAccumulator(str(tmp_path)).Reload()
    (event,) = events.Tensors("custom_scalars__config__")
    (category,) = Layout.FromString(event.tensor_proto.string_val[0]).category
    (chart,) = category.chart
    assert (category.title, chart.title) == ("entropy", "decoder layer 1")
    assert chart.multiline.tag == [r"weights/heads/entropy/decoder\ layer\ 1\ head\ 1"]


@pytest.mark.parametrize("inside", ["", "tensorboard"])
def test_a_folder_without_events_is_its_own(inside: str, tmp_path: Path) -> None:
    (tmp_path / inside).mkdir(exist_ok=True)
    assert event_folder(tmp_path) == tmp_path
