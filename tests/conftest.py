"""What every test gets: checked shapes, one thread, repeatable properties, and a repository left alone."""

import gc
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import jaxtyping
import pytest
import torch
from checked_types import check_types, first_calls_checked
from hypothesis import settings

REPOSITORY = Path(__file__).parents[1]
IN_CI = "CI" in os.environ

pytest_plugins = ["command", "sampling"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--device",
        choices=("cuda", "cpu"),
        default="cuda",
        help="where the tests marked `gpu` run; cpu: to try them without a GPU",
    )


# Before any of them is imported: from here on a wrong shape or type is an error.
check_types(["attention_lab.attention", "attention_lab.models", "attention_lab.metrics"])

torch.set_num_threads(1)  # the tensors are tiny

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as a shell starts jobs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)

if not torch.cuda.is_available():
    # Without a GPU, each seed is queued for one together with the formatted stack, which takes a millisecond.
    torch.manual_seed = torch.default_generator.manual_seed

settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, database=None)
settings.load_profile("ci" if IN_CI else "local")


@pytest.fixture(autouse=True)
def _first_calls_checked() -> Iterator[None]:
    """Checking all calls takes a tenth of the time of all tests."""
    with first_calls_checked(20):
        yield


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What the tests import is never freed, and searching it for garbage takes seconds."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(50_000)  # tests make millions of objects that need no collector
        gc.enable()


def _files() -> set[Path]:
    parts = (path for top in REPOSITORY.glob("[!.]*") for path in (top, *top.rglob("*")))
    return {path for path in parts if "__pycache__" not in path.parts}


@pytest.fixture(scope="session", autouse=True)
def _repository_left_alone() -> Iterator[None]:
    """Nothing is written into the repository; checked only in CI, where nobody else works in it."""
    before = _files() if IN_CI else set()
    yield
    written = sorted(str(path.relative_to(REPOSITORY)) for path in _files() - before) if IN_CI else []
    assert not written, f"the tests wrote into the repository: {written}"


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One Chromium for all tests of a process."""
    from chromium import Browser  # few tests need it

    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture
def unchecked_shapes() -> Iterator[None]:
    """Types and shapes go unchecked: Dynamo does not follow the checks.

    The checked functions all share one code object, and Dynamo compiles only a few versions of each.
    """
    torch.compiler.reset()
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
