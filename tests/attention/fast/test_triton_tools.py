"""Whether Triton can be used, as on a machine with a GPU but without a C compiler."""

import sys
from collections.abc import Iterator
from subprocess import CalledProcessError
from types import ModuleType, SimpleNamespace

import pytest

from attention_lab.attention.fast import triton_tools


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    triton_tools.triton_works.cache_clear()
    yield
    triton_tools.triton_works.cache_clear()


def _install(monkeypatch: pytest.MonkeyPatch, driver: object) -> None:
    """A Triton with this driver."""
    monkeypatch.setattr(triton_tools, "find_spec", lambda _: object())
    package, runtime = ModuleType("triton"), ModuleType("triton.runtime")
    vars(runtime)["driver"] = driver
    monkeypatch.setitem(sys.modules, "triton", package)
    monkeypatch.setitem(sys.modules, "triton.runtime", runtime)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("Failed to find C compiler. Please specify via CC environment variable."),
        CalledProcessError(1, ["gcc"]),
        AssertionError("libcuda.so cannot found!\nPossible files are located at []."),
        OSError("Read-only file system"),
        ImportError("undefined symbol"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_where_its_driver_cannot_be_compiled_its_kernels_are_left_out_with_a_warning(
    error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Driver:
        @property
        def active(self) -> object:
            raise error

    _install(monkeypatch, Driver())
    assert not triton_tools.triton_works() and not triton_tools.triton_works()
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    line = record.getMessage()
    assert "\n" not in line and type(error).__name__ in line and "C compiler" in line


def test_the_shared_memory_is_what_the_driver_says(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def properties(device: int) -> dict[str, int]:
        asked.append(device)
        return {"max_shared_mem": 65536, "multiprocessor_count": 40}

    _install(
        monkeypatch,
        SimpleNamespace(active=SimpleNamespace(utils=SimpleNamespace(get_device_properties=properties))),
    )
    triton_tools.shared_memory.cache_clear()
    assert [triton_tools.shared_memory(3), triton_tools.shared_memory(3)] == [65536, 65536]
    triton_tools.shared_memory.cache_clear()
    assert asked == [3]


def test_it_works_with_a_driver(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    _install(monkeypatch, SimpleNamespace(active=SimpleNamespace(get_current_device=lambda: 0)))
    assert triton_tools.triton_works()
    assert not caplog.records


def test_where_it_is_not_installed_nothing_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(triton_tools, "find_spec", lambda _: None)
    assert not triton_tools.triton_works()
    assert not caplog.records
