"""What of a checkpoint's state is put back into a training."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from attention_lab.untrusted.restored import (
    alike,
    check_parts,
    check_random,
    names_place,
    of_another_run,
    of_best,
    of_interruption,
    of_metric,
    of_optimizer,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Checkpoints of a run that was at /old/run before."""
    place = tmp_path / "run" / "checkpoints"
    (place / "metric").mkdir(parents=True)
    for name in ("best.ckpt", "second.ckpt", "metric/third.ckpt"):
        (place / name).write_text("x")
    (tmp_path / "canary").write_text("x")
    (place / "link.ckpt").symlink_to(tmp_path / "canary")
    (place / "metric" / "away").symlink_to(tmp_path)
    return place


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
    found = of_best(_state(), folder)
    assert found is not None
    assert found["best_model_path"] == f"{folder}/best.ckpt"
    assert set(found["best_k_models"]) == {f"{folder}/best.ckpt", f"{folder}/second.ckpt"}
    assert found["dirpath"] == str(folder)
    third = of_best(_state(best_model_path="/old/run/metric/third.ckpt"), folder)
    assert third is not None and third["best_model_path"] == f"{folder}/metric/third.ckpt"


PLACES = [
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


@pytest.mark.parametrize("place", PLACES, ids=repr)
@pytest.mark.parametrize("field", ["best_model_path", "kth_best_model_path", "last_model_path"])
def test_no_file_from_elsewhere(field: str, place: Any, folder: Path) -> None:
    assert of_best(_state(**{field: place}), folder) is None


@pytest.mark.parametrize("place", [one for one in PLACES if not isinstance(one, list)], ids=repr)
def test_no_file_from_elsewhere_among_the_best(place: Any, folder: Path) -> None:
    assert of_best(_state(best_k_models={place: 0.5, "/old/run/second.ckpt": 0.7}), folder) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"dirpath": "/QQ", "best_model_path": "/QQ/../../../canary"},
        {"dirpath": None},
        {"best_k_models": []},
        {"best_k_models": {"/old/run/best.ckpt": "x"}},
        {"best_k_models": {"/old/run/best.ckpt": 0.5}},  # without the one that goes next
        {"best_model_score": torch.ones(2)},
    ],
)
def test_no_other_form(changed: dict[str, Any], folder: Path) -> None:
    assert of_best(_state(**changed), folder) is None
    assert of_best(None, folder) is None


def test_the_parts_of_a_checkpoint() -> None:
    good = {"callbacks": {}, "pytorch-lightning_version": "2.6.6", "epoch": 1, "global_step": 3}
    check_parts(good)
    for key, value in {
        "callbacks": None,
        "pytorch-lightning_version": "1.4.0",
        "epoch": -1,
        "global_step": "x",
    }.items():
        with pytest.raises(ValueError, match="it"):
            check_parts({**good, key: value})


def test_another_run_gives_no_places() -> None:
    read = {"state_dict": {}, "epoch": 3, "callbacks": {"ModelCheckpoint": _state()}, "hparams_name": "x"}
    assert of_another_run(read, {"more": 1}) == {"state_dict": {}, "epoch": 3, "callbacks": {}, "more": 1}


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
def test_alike(now: Any, before: Any, found: Any) -> None:
    assert alike(now, before, "x") == found


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
    ],
)
def test_not_alike(now: Any, before: Any) -> None:
    with pytest.raises(ValueError, match=r"^x"):
        alike(now, before, "x")


def test_places_in_nested_values() -> None:
    assert names_place({"a": [("x", "../y")]}) and names_place({"/a": 1})
    assert not names_place({"a": [("x", 1, None, torch.ones(1))]})


def _trained(kind: type[torch.optim.Optimizer], **options: Any) -> torch.optim.Optimizer:
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = kind(model.parameters(), **options)  # type: ignore[call-arg]

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(torch.ones(1, 3)).square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)  # type: ignore[arg-type]
    return optimizer


@pytest.mark.parametrize(
    "kind", [torch.optim.Adam, torch.optim.SGD, torch.optim.LBFGS, torch.optim.Adafactor]
)
def test_an_optimiser_takes_its_own_state(kind: type[torch.optim.Optimizer]) -> None:
    options = {"momentum": 0.9} if kind is torch.optim.SGD else {}
    state = _trained(kind, lr=1, **options).state_dict()
    fresh = _trained(kind, lr=1, **options)
    kept = of_optimizer(fresh, state)
    assert kept["state"].keys() == state["state"].keys()
    fresh.load_state_dict(kept)
    for group in state["param_groups"]:
        group.update(lr=0.25, weight_decay=7.0, max_iter=10**9, history_size=10**9)
    (group,) = of_optimizer(fresh, state)["param_groups"]
    assert group["lr"] == 0.25
    assert group.get("weight_decay") != 7.0 and group.get("max_iter") != 10**9


@pytest.mark.parametrize(
    "value",
    [3, torch.ones(10**3), torch.ones(2, 3, 1), "x", float("nan"), 10**60, {"a": 1}, [torch.ones(7, 7)]],
)
def test_an_optimiser_takes_no_other(value: Any) -> None:
    optimizer = _trained(torch.optim.Adam, fused=True)
    state = optimizer.state_dict()
    state["state"][0]["exp_avg"] = value
    with pytest.raises(ValueError, match="optimiser"):
        of_optimizer(optimizer, state)
    for bad in ({}, [], {**state, "state": {9: {}}}, {**state, "param_groups": []}):
        with pytest.raises(ValueError, match="optimiser"):
            of_optimizer(optimizer, bad)


def test_the_state_of_an_interruption() -> None:
    good = {
        "done": False,
        "batch": 3,
        "logged": 3,
        "logs": {"metrics.csv": 4},
        "shown": {"x": 0.5},
        "metrics": {"x": torch.tensor(0.5)},
        "processes": [{}],
    }
    assert of_interruption(good) == good
    for key, value in {
        "done": 1,
        "batch": -1,
        "logged": "x",
        "logs": {"x": -5},
        "shown": {"x": "y"},
        "metrics": {"x": torch.ones(5)},
        "processes": {},
    }.items():
        with pytest.raises(ValueError, match="interrupted"):
            of_interruption({**good, key: value})


def test_the_sums_of_a_metric() -> None:
    defaults = {"total": torch.tensor(0.0), "all": []}
    good = {"total": torch.tensor(2.0), "all": [torch.ones(3)], "_update_count": 2}
    assert of_metric(good, defaults, "x") == good
    for bad in (
        {"forward": 1},
        {"total": torch.ones(4)},
        {"total": 1},
        {"all": [1]},
        {"_update_count": -1},
        3,
    ):
        with pytest.raises(ValueError, match="x"):
            of_metric(bad, defaults, "x")


def test_random_states_are_not_read_beyond_their_end() -> None:
    words = torch.zeros(624, dtype=torch.int64)
    check_random({"numpy": ("MT19937", words, 624)})
    for place, numbers in ((10**6, words), (-1, words), (3, words[:5])):
        with pytest.raises(ValueError, match="NumPy"):
            check_random({"numpy": ("MT19937", numbers, place)})
