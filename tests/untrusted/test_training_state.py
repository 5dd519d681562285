"""Checks of the state that training restores from a checkpoint."""

from pathlib import Path
from typing import Any

import pytest
import torch

from attention_lab.untrusted.training_state import (
    check_random_states,
    check_training_state,
    checkpointing_state,
    contains_path,
    initial_state,
    interrupted_epoch_state,
    matching,
    metric_states,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The checkpoint folder of a run, formerly at /old/run."""
    checkpoints = tmp_path / "run" / "checkpoints"
    (checkpoints / "metric").mkdir(parents=True)
    for name in ("best.ckpt", "second.ckpt", "metric/third.ckpt"):
        (checkpoints / name).write_text("x")
    (tmp_path / "canary").write_text("x")
    (checkpoints / "link.ckpt").symlink_to(tmp_path / "canary")
    (checkpoints / "metric" / "away").symlink_to(tmp_path)
    return checkpoints


def _state(**changed: Any) -> dict[str, Any]:
    best = {"/old/run/best.ckpt": torch.tensor(0.5), "/old/run/second.ckpt": torch.tensor(0.7)}
    return {
        "monitor": "validation/mse",
        "best_model_score": torch.tensor(0.5),
        "current_score": None,
        "dirpath": "/old/run",
        "best_model_path": "/old/run/best.ckpt",
        "last_model_path": "",
        "kth_best_model_path": "/old/run/second.ckpt",
        "kth_value": torch.tensor(0.7),
        "best_k_models": best,
        **changed,
    }


def test_the_best_checkpoints_are_found_where_the_run_is_now(folder: Path) -> None:
    found = checkpointing_state(_state(), folder)
    assert found is not None
    assert found["best_model_path"] == f"{folder}/best.ckpt"
    assert set(found["best_k_models"]) == {f"{folder}/best.ckpt", f"{folder}/second.ckpt"}
    assert found["dirpath"] == str(folder)
    third = checkpointing_state(_state(best_model_path="/old/run/metric/third.ckpt"), folder)
    assert third is not None and third["best_model_path"] == f"{folder}/metric/third.ckpt"


PATHS = [
    *("local:///tmp/canary", "file:///tmp/canary", "/tmp/canary", "../../canary", "/old/run/../../canary"),
    *(
        "/old/run/link.ckpt",
        "/old/run/metric/away/canary",
        "/old/run/metric",
        "/old/run",
        "/old/run/none.ckpt",
    ),
    *("/old/run/\0", 3, None, b"/old/run/best.ckpt", ["/old/run/best.ckpt"]),
]


@pytest.mark.parametrize("path", PATHS, ids=repr)
@pytest.mark.parametrize("field", ["best_model_path", "kth_best_model_path", "last_model_path"])
def test_no_file_from_outside(field: str, path: Any, folder: Path) -> None:
    assert checkpointing_state(_state(**{field: path}), folder) is None


@pytest.mark.parametrize("path", [path for path in PATHS if not isinstance(path, list)], ids=repr)
def test_no_file_from_outside_among_the_best(path: Any, folder: Path) -> None:
    assert checkpointing_state(_state(best_k_models={path: 0.5, "/old/run/second.ckpt": 0.7}), folder) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"dirpath": "/QQ", "best_model_path": "/QQ/../../../canary"},
        {"dirpath": None},
        {"best_k_models": []},
        {"best_k_models": {"/old/run/best.ckpt": "x"}},
        {"best_k_models": {"/old/run/best.ckpt": 0.5}},  # without the next one to be deleted
        {"best_model_score": torch.ones(2)},
        {"best_model_score": torch.tensor(1j)},
    ],
)
def test_an_invalid_state_is_refused(changed: dict[str, Any], folder: Path) -> None:
    assert checkpointing_state(_state(**changed), folder) is None
    assert checkpointing_state(None, folder) is None


def test_the_parts_of_a_checkpoint() -> None:
    good = {"callbacks": {}, "pytorch-lightning_version": "2.6.6", "epoch": 1, "global_step": 3}
    check_training_state(good)
    for key, value in {
        "callbacks": None,
        "pytorch-lightning_version": "1.4.0",
        "epoch": -1,
        "global_step": "x",
    }.items():
        with pytest.raises(ValueError, match="it"):
            check_training_state({**good, key: value})


def test_no_paths_are_taken_from_another_run() -> None:
    read = {"state_dict": {}, "epoch": 3, "callbacks": {"ModelCheckpoint": _state()}, "hparams_name": "x"}
    assert initial_state(read, {"more": 1}) == {"state_dict": {}, "epoch": 3, "callbacks": {}, "more": 1}


@pytest.mark.parametrize(
    ("now", "before", "found"),
    [
        ({"a": 1, "b": 2.0}, {"a": 5, "c": "evil"}, {"a": 5, "b": 2.0}),
        ([1, False], [3, True], [3, True]),
        ((0.5,), (1,), (1,)),
        (None, 2, 2),
        (None, "a message with / in it", None),
        ("not_stopped", "patience", "patience"),
    ],
)
def test_matching(now: Any, before: Any, found: Any) -> None:
    assert matching(now, before, "x") == found


def test_a_parameter_becomes_a_tensor() -> None:
    """Early stopping writes its best score in a message, which fails for a parameter."""
    assert f"{matching(torch.zeros(()), torch.nn.Parameter(torch.ones(())), 'x'):.1f}" == "1.0"


@pytest.mark.parametrize(
    ("now", "before"),
    [
        *((1, -1), (1, True), (1, 1.0), (1, 2**60), (1, "x"), (True, 1), (0.5, float("nan")), (0.5, "x")),
        *(
            ("a", "/etc"),
            ("a", "local://x"),
            ([1], [1, 2]),
            ([1], {"0": 1}),
            ({"a": 1}, [1]),
            ({"a": 1}, {"a": []}),
        ),
        (torch.ones(2), torch.ones(3)),
        (torch.ones(2), [1, 1]),
        (None, torch.ones(3)),
        (None, torch.tensor(1j)),
        (torch.tensor(1.0), torch.tensor(1j)),
    ],
)
def test_not_matching(now: Any, before: Any) -> None:
    with pytest.raises(ValueError, match=r"^x"):
        matching(now, before, "x")


def test_paths_in_nested_values() -> None:
    assert contains_path({"a": [("x", "../y")]}) and contains_path({"/a": 1})
    assert not contains_path({"a": [("x", 1, None, torch.ones(1))]})


def test_the_state_of_an_interrupted_epoch() -> None:
    good = {
        "done": False,
        "batch": 3,
        "logged": 3,
        "logs": {"metrics.csv": 4},
        "shown": {"x": 0.5},
        "metrics": {"x": torch.tensor(0.5)},
        "processes": [{}],
    }
    assert interrupted_epoch_state(good) == good
    for key, value in (
        ("done", 1),
        ("batch", -1),
        ("logged", "x"),
        ("logs", {"x": -5}),
        ("shown", {"x": "y"}),
        ("metrics", {"x": torch.ones(5)}),
        ("metrics", {"x": torch.tensor(1j)}),  # which cannot be shown as a number
        ("processes", {}),
    ):
        with pytest.raises(ValueError, match="interrupted"):
            interrupted_epoch_state({**good, key: value})


def test_the_states_of_a_metric() -> None:
    defaults = {"total": torch.tensor(0.0), "all": []}
    good = {"total": torch.tensor(2.0), "all": [torch.ones(3)], "_update_count": 2}
    assert metric_states(good, defaults, "x") == good
    for bad in (
        {"forward": 1},
        {"total": torch.ones(4)},
        {"total": 1},
        {"all": [1]},
        {"total": torch.tensor(1j)},
        {"all": [torch.tensor(1j)]},
        {"_update_count": -1},
        3,
    ):
        with pytest.raises(ValueError, match="x"):
            metric_states(bad, defaults, "x")


def test_random_states_are_not_read_beyond_their_end() -> None:
    words = torch.zeros(624, dtype=torch.int64)
    check_random_states({"numpy": ("MT19937", words, 624)})
    for place, numbers in ((10**6, words), (-1, words), (3, words[:5])):
        with pytest.raises(ValueError, match="NumPy"):
            check_random_states({"numpy": ("MT19937", numbers, place)})
