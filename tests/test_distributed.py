"""Decisions and values that the processes of distributed training share."""

from pathlib import Path

import pytest
import torch
import torch.multiprocessing

from attention_lab.distributed import any_process, gather_from_processes, process_count

CPU = torch.device("cpu")


def test_a_single_process_decides_alone() -> None:
    assert process_count() == 1
    assert [any_process(decision, CPU) for decision in (False, True)] == [False, True]
    assert gather_from_processes(["own"]) == [["own"]]


def _work(rank: int, folder: str) -> None:
    torch.distributed.init_process_group("gloo", f"file://{folder}/meeting", rank=rank, world_size=2)
    shared = [process_count(), any_process(False, CPU), any_process(rank == 1, CPU)]
    shared += gather_from_processes({"rank": rank})
    Path(folder, str(rank)).write_text(repr(shared))
    torch.distributed.destroy_process_group()


@pytest.mark.slow
def test_two_processes_share_decisions_and_values(tmp_path: Path) -> None:
    torch.multiprocessing.spawn(_work, args=(str(tmp_path),), nprocs=2)  # type: ignore[no-untyped-call]
    expected = repr([2, False, True, {"rank": 0}, {"rank": 1}])
    assert [(tmp_path / str(rank)).read_text() for rank in (0, 1)] == [expected] * 2
