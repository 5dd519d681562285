"""The command line, run inside the test process: importing torch for each run would take minutes."""

import copy
import importlib.util
import io
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
import yaml  # type: ignore[import-untyped]
from hydra._internal.hydra import Hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode
from tensorboard.summary.writer import event_file_writer

REPOSITORY = Path(__file__).parents[2]


class Outcome(NamedTuple):
    """What a run of the command line left: exit status, standard output, standard error, folder."""

    status: int
    out: str
    err: str
    folder: Path


Command = Callable[..., Outcome]


def load_program() -> Any:
    """The module of `train.py`."""
    spec = importlib.util.spec_from_file_location("train", REPOSITORY / "train.py")
    assert spec is not None and spec.loader is not None
    train = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(train)
    return train


def _brings_a_folder(arguments: tuple[str, ...]) -> bool:
    """Whether the command has a folder to write into: a resumed run, or the only one to report on."""
    resumed = any(one.startswith("resume=") and one != "resume=auto" for one in arguments)
    told = {"stage=report", "stage=leaderboard"} & set(arguments)
    given = any(one.startswith("run=") and not set("[*") & set(one) for one in arguments)
    return resumed or (bool(told) and given)


@pytest.fixture
def _composed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hydra composes every configuration twice, first to see whether it is a sweep: few of ours are."""
    asked = Hydra.get_mode

    def get_mode(hydra: Hydra, config_name: str | None, overrides: list[str]) -> RunMode | None:
        told = any(one.startswith(("experiment=", "sweep", "hydra.mode=")) for one in overrides)
        mode: RunMode | None = asked(hydra, config_name, overrides) if told else None
        return mode

    monkeypatch.setattr(Hydra, "get_mode", get_mode)


@pytest.fixture
def _parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run reads thirty files of `conf/` and of Hydra's own: of equal files the first is parsed."""
    load = yaml.load

    def load_once(stream: Any, Loader: Any) -> Any:  # noqa: N803
        if not isinstance(stream, io.TextIOWrapper) or Loader.__name__ != "OmegaConfLoader":
            return load(stream, Loader)
        text = stream.read()
        if text not in _PARSED:
            stream.seek(0)
            _PARSED[text] = load(stream, Loader)
        return copy.deepcopy(_PARSED[text])

    monkeypatch.setattr(yaml, "load", load_once)


_PARSED: dict[str, Any] = {}


@pytest.fixture
def _garbage_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each fit looks for garbage once: for 0.1 s and more, among all that the tests of a process import."""
    from attention_lab.experiment.trainer import cost  # slow, and tests of other parts do without it

    monkeypatch.setattr(cost, "gc", SimpleNamespace(collect=lambda: 0))


@pytest.fixture(scope="session")
def _event_files_in_order() -> None:
    """TensorBoard reads the event files of one second in the order of their numbers as text: 10 before 9."""
    event_file_writer._global_uid = event_file_writer.AtomicCounter(1_000_000)


@pytest.fixture
def command(
    _garbage_left: None,
    _event_files_in_order: None,
    _composed_once: None,
    _parsed_once: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Iterator[Command]:
    """`command("model=nw", ...)` runs `python train.py model=nw ...` into a folder of its own."""
    train = load_program()
    monkeypatch.setenv("HYDRA_MAIN_MODULE", "__main__")  # so that Hydra looks for conf/ beside the file
    runs = 0

    def run(*arguments: str, folder: Path | None = None) -> Outcome:
        nonlocal runs
        runs += 1
        folder = tmp_path / f"run{runs}" if folder is None else folder
        kind = "sweep" if "-m" in arguments else "run"
        where = [] if _brings_a_folder(arguments) else [f"hydra.{kind}.dir={folder}"]
        argv = [str(REPOSITORY / "train.py"), *arguments, *where]
        monkeypatch.setattr(sys, "argv", argv)
        monkeypatch.chdir(tmp_path)
        capfd.readouterr()
        GlobalHydra.instance().clear()
        status = 0
        try:
            with warnings.catch_warnings():
                train.prepare_command_line()
                train.main()
        except SystemExit as error:
            status = error.code if isinstance(error.code, int) else 1
            if isinstance(error.code, str):
                sys.stderr.write(f"{error.code}\n")
        out, err = capfd.readouterr()
        return Outcome(status, out, err, folder)

    root = logging.getLogger()
    threads, handlers = torch.get_num_threads(), root.handlers[:]
    yield run
    for handler in set(root.handlers) - set(handlers):
        handler.close()
    root.handlers[:] = handlers
    torch.set_num_threads(threads)
