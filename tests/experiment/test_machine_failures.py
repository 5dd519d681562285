"""Failures of the machine are reported in one line; all other errors stay as they are."""

import errno
from pathlib import Path

import pytest
import torch

from attention_lab.errors import LabError
from attention_lab.experiment import machine_failures


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB"),
        RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried"),
        MemoryError(),
    ],
)
def test_running_out_of_memory_names_the_option_to_lower(error: Exception, tmp_path: Path) -> None:
    message = r"out of memory: lower data.batch_size \(now 128\)"
    with (
        pytest.raises(LabError, match=message),
        machine_failures.explain_machine_failures({"data": {"batch_size": 128}}, tmp_path),
    ):
        raise error


def test_the_batch_size_named_is_never_that_of_the_default_data(tmp_path: Path) -> None:
    config = {"stage": "test", "data": {"batch_size": 64}}  # the checkpoint has its own
    with (
        pytest.raises(LabError, match=r"lower data.batch_size, or use"),
        machine_failures.explain_machine_failures(config, tmp_path),
    ):
        raise MemoryError


def test_an_operation_refused_by_deterministic_training_is_named(tmp_path: Path) -> None:
    message = "true: put_ has no deterministic implementation here: choose [+]trainer.deterministic=warn"
    torch.use_deterministic_algorithms(True)
    try:
        with (
            pytest.raises(LabError, match=message),
            machine_failures.explain_machine_failures({}, tmp_path),
        ):
            torch.zeros(3).put_(torch.tensor([0]), torch.ones(1))
    finally:
        torch.use_deterministic_algorithms(False)


def test_other_errors_are_unchanged(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="shapes"), machine_failures.explain_machine_failures({}, tmp_path):
        raise RuntimeError("shapes do not fit")
    with pytest.raises(FileNotFoundError), machine_failures.explain_machine_failures({}, tmp_path):
        (tmp_path / "none").read_text()
    message = rf"cannot write {tmp_path}: .*with resume="
    with pytest.raises(LabError, match=message), machine_failures.explain_machine_failures({}, tmp_path):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_file_in_place_of_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "csv").touch()
    with (
        pytest.raises(LabError, match=rf"^{tmp_path}/csv should be a folder: remove the file there$"),
        machine_failures.explain_machine_failures({}, tmp_path),
    ):
        (tmp_path / "csv").mkdir()
