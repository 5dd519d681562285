"""Tests of messages about classes that cannot be imported."""

import math
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hydra.errors import InstantiationException
from hydra.utils import instantiate
from pytorch_lightning import Callback
from torch import nn

from attention_lab.errors import LabError
from attention_lab.experiment.build_errors import blame_option
from attention_lab.experiment.target_errors import explain_target, make_checked, missing_target

FILES = {
    "__init__.py": "",
    "scores.py": "class SquaredDot:\n    class Inner: ...\n",
    "needs.py": '"""Doc."""\nimport nonexistent_thing\n',
    "syntax.py": "x = 1\nclass SquaredDot\n",
    "raises.py": "def f():\n    raise RuntimeError('two\\nlines')\nf()\n",
    "inside.py": "import fractions\nfractions.Fraction('x')\n",
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's own package in the current folder."""
    folder = tmp_path / "own_package"
    folder.mkdir()
    for name, content in FILES.items():
        (folder / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.startswith("own_package")]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("needs.X", "own_package/needs.py, line 2: ModuleNotFoundError: No module named 'nonexistent_thing'"),
        ("syntax.SquaredDot", "own_package/syntax.py, line 2: SyntaxError: expected ':'"),
        ("raises.X", "own_package/raises.py, line 2: RuntimeError: two"),
        (
            "inside.X",
            "own_package/inside.py, line 2: ValueError: Invalid literal for Fraction: 'x'",
        ),
        ("scores.SquareDot", "own_package.scores has no SquareDot (did you mean SquaredDot?)"),
        ("scores.Else", "own_package.scores has no Else"),
        ("scores.SquaredDot.Iner", "own_package.scores.SquaredDot has no Iner (did you mean Inner?)"),
        ("scors.SquaredDot", "there is no module own_package.scors (did you mean own_package.scores?)"),
        ("scors", "own_package has no scors (did you mean scores?)"),
    ],
)
def test_the_message_says_what_is_wrong(package: None, target: str, message: str) -> None:
    target = f"own_package.{target}"
    with pytest.raises(InstantiationException) as raised:
        instantiate({"_target_": target})
    assert missing_target(raised.value) == target
    assert explain_target(raised.value, target) == message


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (
            "own_pakage.scores.X",
            "there is no module own_pakage beside train.py, in PYTHONPATH or installed "
            "(did you mean own_package?)",
        ),
        (
            "own_pakage",
            "there is no module own_pakage beside train.py, in PYTHONPATH or installed "
            "(did you mean own_package?)",
        ),
        ("statistic.X", "there is no module statistic beside train.py, in PYTHONPATH or installed"),
        ("attention_lab.models.Seq2Sec", "attention_lab.models has no Seq2Sec (did you mean Seq2Seq?)"),
        ("own_package.needs.X", "own_package/needs.py, line 2: ModuleNotFoundError: "),
        ("own_package.scores", "Expected a callable target, got "),
    ],
)
def test_the_option_is_named(package: None, target: str, message: str) -> None:
    config = {"model": {"_target_": target}}
    with pytest.raises(LabError) as raised, blame_option(config):
        instantiate(config["model"])
    assert str(raised.value).startswith(f"model._target_={target}: {message}")
    assert "statistics" not in str(raised.value)  # a module of Python's has no part
    assert "\n" not in str(raised.value)


def _needs(number: int) -> Callback:
    raise TypeError("raised by the function itself")


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (math.sqrt, r"^callbacks.mine: math.sqrt\(\) takes exactly one argument \(0 given\)$"),
        (_needs, r"^callbacks.mine: _needs\(\) missing 1 required positional argument: 'number'$"),
    ],
)
def test_a_function_that_needs_arguments_is_named(function: Callable[..., Any], told: str) -> None:
    with pytest.raises(LabError, match=told):
        make_checked("callbacks.mine", partial(function), Callback, "pytorch_lightning.Callback")


def test_an_error_of_the_users_function_keeps_its_trace() -> None:
    with pytest.raises(TypeError, match="raised by the function itself"):
        make_checked("callbacks.mine", partial(_needs, 1), Callback, "pytorch_lightning.Callback")


class _Layer(nn.Module):
    def __init__(self) -> None:
        self.linear = nn.Linear(1, 1)


class _Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = _Layer()


def test_a_module_without_its_super_is_named() -> None:
    target = f"{__name__}._Model"
    told = r"^_Layer.__init__ must call super\(\).__init__\(\) before it sets attributes$"
    with pytest.raises(LabError, match=told), blame_option({"model": {"_target_": target}}):
        instantiate({"_target_": target})
