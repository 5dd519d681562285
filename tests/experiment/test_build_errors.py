"""Options that do not fit the constructor of the user's own class are named with the part they are in."""

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from hydra.utils import instantiate
from pytorch_lightning.callbacks import device_stats_monitor
from pytorch_lightning.loggers import CSVLogger
from pytorch_lightning.utilities.exceptions import MisconfigurationException

from attention_lab.errors import LabError
from attention_lab.experiment.build_errors import blame_option

CODE = """
class Score:
    def __init__(self, query_size, key_size, heads=None):
        pass

class Inherited(Score):
    pass

class WithoutHeads(Score):
    def __init__(self, query_size, key_size):
        super().__init__(query_size, key_size)
"""
ADDITIVE = {"hidden_size": None, "activation": "tanh"}


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "Inherited",
            ADDITIVE,
            "scoring.hidden_size and scoring.activation are not options of Inherited: leave them out, or "
            "remove those in conf/ with ~scoring.hidden_size ~scoring.activation",
        ),
        (
            "WithoutHeads",
            {},
            "scoring._target_=own_score_classes.WithoutHeads: its constructor must also take heads, which "
            "the program passes besides the options",
        ),
    ],
)
def test_the_part_is_that_of_the_class(
    name: str, options: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_score_classes.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_score_classes", raising=False)
    module = importlib.import_module("own_score_classes")
    config = {
        "model": {"_target_": "attention_lab.models.Seq2Seq", "hidden_size": 8},
        "scoring": {"_target_": f"own_score_classes.{name}", "_partial_": True, **options},
    }
    with pytest.raises(LabError) as raised, blame_option(config):
        getattr(module, name)(query_size=4, key_size=4, heads=None, **options)
    assert str(raised.value) == message


@pytest.mark.parametrize("name", ["LBFGS", "Adam", "Muon"])
def test_a_class_that_hydra_calls_by_another_name(name: str) -> None:
    """Its module is not the one in the configuration: `torch.optim.lbfgs.LBFGS`."""
    config = {"optimizer": {"_target_": f"torch.optim.{name}", "lr": 0.1}}  # without `_partial_`
    with pytest.raises(LabError) as raised, blame_option(config):
        instantiate(config["optimizer"])
    missing = "missing 1 required positional argument: 'params'"
    assert str(raised.value) == f"optimizer: TypeError: {name}.__init__() {missing}"


MODELS = """
class NoMechanism:
    def __init__(self, sizes, size=32):
        pass

class NothingPassed:
    def __init__(self, *, size=32):
        pass

class NoOption:
    def __init__(self, mechanism, sizes):
        pass
"""
FIRST = "it must take mechanism and sizes first, which the program passes besides the options"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("NoMechanism", f"model._target_=own_models.NoMechanism: {FIRST}"),
        ("NothingPassed", f"model._target_=own_models.NothingPassed: {FIRST}"),
        (
            "NoOption",
            "model.size is not an option of NoOption: leave it out, "
            "or remove the one in conf/ with ~model.size",
        ),
    ],
)
def test_a_model_takes_what_the_program_passes_first(
    name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_models.py").write_text(MODELS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_models", raising=False)
    module = importlib.import_module("own_models")
    config = {"model": {"_target_": f"own_models.{name}", "size": 8, "needs": "classification"}}
    with pytest.raises(LabError) as raised, blame_option(config):
        getattr(module, name)("the mechanism", "the sizes", size=8)
    assert str(raised.value) == message


ABSTRACT = """
from attention_lab.tasks import Task

class Half(Task):
    def answer(self, batch):
        return []
"""


def test_a_class_without_a_method_that_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_tasks.py").write_text(ABSTRACT)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_tasks", raising=False)
    module = importlib.import_module("own_tasks")
    message = r"^task: TypeError: Can't instantiate abstract class Half with.* abstract method '?observe'?$"
    with pytest.raises(LabError, match=message), blame_option({"task": {"_target_": "own_tasks.Half"}}):
        module.Half("the model", "the codec")


def test_a_schedule_takes_the_number_of_steps() -> None:
    target = "torch.optim.lr_scheduler.StepLR"
    config = {"schedule": {"_target_": target, "step_size": 2, "_partial_": True}}
    optimizer = torch.optim.SGD([torch.zeros(1)])
    with pytest.raises(LabError) as raised, blame_option(config):
        instantiate(config["schedule"])(optimizer, 100)
    first = "it must take the optimizer and the number of steps first"
    assert str(raised.value) == (
        f"schedule._target_={target}: {first}, which the program passes besides the options"
    )


TRAINER = {"_target_": "pytorch_lightning.Trainer"}
CSV = {"_target_": "pytorch_lightning.loggers.CSVLogger", "flush_logs_every_n_steps": 0}


def test_a_number_that_a_library_cannot_use_later(tmp_path: Path) -> None:
    config = {"trainer": TRAINER, "logger": {"csv": CSV}}
    logger = CSVLogger(tmp_path, flush_logs_every_n_steps=0)
    with pytest.raises(LabError, match=r"^logger\.csv: ZeroDivisionError: "), blame_option(config):
        logger.log_metrics({"x": 1.0}, 0)


@pytest.mark.parametrize(
    ("callback", "message"),
    [
        ("BackboneFinetuning", "AttributeError: 'LightningModule' object has no attribute 'backbone'"),
        ("DeviceStatsMonitor", "ModuleNotFoundError: `DeviceStatsMonitor` cannot log CPU stats as `psutil`"),
    ],
)
def test_a_callback_that_does_not_work_here_is_named(
    callback: str, message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(device_stats_monitor, "_PSUTIL_AVAILABLE", False)
    made = getattr(pl.callbacks, callback)()
    config = {"callbacks": {"mine": {"_target_": f"pytorch_lightning.callbacks.{callback}"}}}
    trainer = pl.Trainer(accelerator="cpu", logger=CSVLogger(tmp_path), enable_model_summary=False)
    with pytest.raises(LabError, match=rf"^callbacks\.mine: {message}"), blame_option(config):
        made.setup(trainer, pl.LightningModule(), "fit")


def test_an_error_of_a_library_that_user_code_called_keeps_its_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_logging.py").write_text("def log(logger):\n    logger.log_metrics({'x': 1.0}, 0)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    own = importlib.import_module("own_logging")
    config = {"model": {"_target_": "own_logging.Model"}, "logger": {"csv": CSV}}
    with pytest.raises(ZeroDivisionError), blame_option(config):
        own.log(CSVLogger(tmp_path, flush_logs_every_n_steps=0))


@pytest.mark.parametrize(
    ("part", "target", "option", "message"),
    [
        ("scoring", "attention_lab.attention.Additive", {"activation": []}, "activation=[] must be text"),
        (
            "scoring",
            "attention_lab.attention.Gaussian",
            {"width": {"a": 1}},
            "width={'a': 1} must be a number or null",
        ),
        (
            "scoring",
            "attention_lab.attention.Gaussian",
            {"learnable": None},
            "learnable=null must be true or false",
        ),
        ("model", "attention_lab.models.Transformer", {"positions": 3}, "positions=3 must be text"),
        (
            "model",
            "attention_lab.models.Transformer",
            {"attention_dropout": None},
            "attention_dropout=null must be a number",
        ),
    ],
)
def test_an_option_of_a_wrong_type_is_named(
    part: str, target: str, option: dict[str, Any], message: str
) -> None:
    config = {part: {"_target_": target, **option}}
    passed = (4, 4) if part == "scoring" else (None, None)
    with pytest.raises(LabError) as raised, blame_option(config):
        instantiate({**config[part], "_args_": passed})
    assert str(raised.value) == f"{part}.{message}"


def test_a_file_that_is_no_text_is_named() -> None:
    config = {"data": {"_target_": "attention_lab.data.Pairs", "file": ["a", "b"]}}
    with (
        pytest.raises(LabError, match=r"^data\.file=\['a', 'b'\] must be text or null$"),
        blame_option(config),
    ):
        instantiate(config["data"]).setup()


@pytest.mark.parametrize(
    "message",
    [
        "`ModelCheckpoint(monitor={!r})` could not find the monitored key in the returned metrics: "
        "['validation/loss']. HINT: Did you call `log`?",
        "Early stopping conditioned on metric `{}` which is not available. Pass in or modify your "
        "`EarlyStopping` callback to use any of the following: `validation/loss`",
    ],
)
@pytest.mark.parametrize("start", ["ModelCheckpoint(monitor='", "Early stopping conditioned on metric `"])
def test_the_name_of_a_metric_that_repeats_a_message_is_read_in_linear_time(message: str, start: str) -> None:
    name = start * 20_000  # a search for the message took two minutes
    with pytest.raises(LabError) as found, blame_option({}):
        raise MisconfigurationException(message.format(name))
    assert str(found.value).endswith("there is no such metric; choose validation/loss")
