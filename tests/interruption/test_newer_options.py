"""The options of a resumed run, which may have been started before an option existed."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from omegaconf import OmegaConf

from attention_lab.config_parts import MECHANISM
from attention_lab.errors import LabError
from attention_lab.experiment.checkpoints import check_same_model
from attention_lab.interruption import resume
from attention_lab.interruption.resume import check_same_options
from attention_lab.runs.run_folder import Job


def test_options_newer_than_a_run_may_be_off(tmp_path: Path) -> None:
    name = "attention_lab.data.Pairs"
    old = {"data": {"_target_": name, "seed": 0}, "trainer": {"_target_": "b.Trainer"}}
    (tmp_path / "config.yaml").write_text(json.dumps(old))
    new = {**old, "data": {**old["data"], "right_to_left": False}}
    check_same_options(tmp_path, new)
    on = {**old, "data": {**old["data"], "right_to_left": True}}
    other = {**old, "trainer": {**old["trainer"], "use_distributed_sampler": False}}
    for config, given in ((on, ()), (other, ()), (new, ("data.right_to_left",))):
        with pytest.raises(LabError, match=r"leave that option as it was"):
            check_same_options(tmp_path, config, given)
    check_same_options(tmp_path, {**old, "trainer": {**old["trainer"], "enable_progress_bar": False}})
    for one in (old, new):  # a class of the user's own may have another default
        one["data"]["_target_"] = "mine.Pairs"
    (tmp_path / "config.yaml").write_text(json.dumps(old))
    with pytest.raises(LabError, match=r"has data.right_to_left=None, not False"):
        check_same_options(tmp_path, new)


def test_options_that_older_runs_did_not_list_may_be_as_they_were(tmp_path: Path) -> None:
    old: dict[str, dict[str, Any]] = {
        "model": {"_target_": "attention_lab.models.GraphClassifier"},
        "schedule": {"_target_": "attention_lab.tasks.schedules.cosine"},
        "task": {"_target_": "attention_lab.tasks.NodeClassification"},
        "trainer": {"_target_": "b.Trainer"},
    }
    (tmp_path / "config.yaml").write_text(json.dumps(old))
    options: list[tuple[str, str, Any, Any]] = [
        ("model", "norm", "pre", "post"),
        ("schedule", "final", 0.01, 0.1),
        ("task", "label_smoothing", 0.0, 0.1),
    ]
    new = old | {part: {**old[part], option: was} for part, option, was, _ in options}
    check_same_options(tmp_path, new)
    for part, option, was, other in options:
        message = rf"has {part}\.{option}={was}, not {other}: leave that option as it was"
        with pytest.raises(LabError, match=message):
            check_same_options(tmp_path, new | {part: {**old[part], option: other}})


def test_an_older_run_is_the_same_setting() -> None:
    """A leaderboard does not split it from a newer run with the default."""
    older = {"model": {"_target_": "attention_lab.models.Transformer"}, "seed": 1}
    newer: dict[str, Any] = {"model": {**older["model"], "norm": "pre"}, "seed": 1}

    def options(config: dict[str, Any]) -> dict[str, Any]:
        return Job(Path("run"), {}, {}, config, {}, None, "1").options

    assert options(older) == options(newer)
    newer["model"]["norm"] = "post"
    assert options(older) != options(newer)


def test_a_checkpoint_of_an_older_run_has_the_same_model() -> None:
    model = {"_target_": "attention_lab.models.Transformer", "layers": 2}
    config = {"model": model, **{part: {} for part in MECHANISM}}
    old: dict[str, Any] = {"config": config, "codec": {}, "sizes": {}}
    new = {**old, "config": {**config, "model": {**model, "norm": "pre"}}}
    check_same_model(Path("old.ckpt"), old, new)
    new["config"]["model"]["norm"] = "post"
    with pytest.raises(LabError, match=r"differs in its model: it has model\.norm=pre, not post; "):
        check_same_model(Path("old.ckpt"), old, new)


def test_a_run_whose_folder_has_moved_has_the_same_options(tmp_path: Path) -> None:
    def options(folder: str) -> dict[str, Any]:
        best = {"dirpath": f"{folder}/checkpoints"}
        return {"trainer": {"default_root_dir": folder}, "callbacks": {"best": best}}

    (tmp_path / "config.yaml").write_text(json.dumps(options("/before")))
    check_same_options(tmp_path, options("/after"))
    elsewhere = {**options("/after"), "callbacks": options("/elsewhere")["callbacks"]}
    with pytest.raises(LabError, match=r"has callbacks.best.dirpath=\./checkpoints, not /elsewhere/checkp"):
        check_same_options(tmp_path, elsewhere)


@pytest.mark.parametrize("text", ["[]", "trainer: 3"])
def test_another_file_in_place_of_the_options_is_rejected(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(LabError, match=r"config\.yaml is not the configuration of a training run"):
        check_same_options(tmp_path, {})


def test_long_options_are_cut_in_the_message(tmp_path: Path) -> None:
    kept = {"data": {"\x1b" + "a" * 900: "b" * 10_000}, "trainer": {}}
    (tmp_path / "config.yaml").write_text(json.dumps(kept))
    with pytest.raises(LabError, match=r"has data\.\ufffda+…=b+…, not None: leave that") as raised:
        check_same_options(tmp_path, {})
    assert len(str(raised.value)) < 600


def _resumed(
    folder: Path, saved: dict[str, Any], composed: dict[str, Any], *options: str, into: Path | None = None
) -> dict[str, Any]:
    """The configuration of a resumed run with the group choices `scoring=dot` and `logger=csv`."""
    (folder / ".hydra").mkdir()
    choices = {"hydra": {"runtime": {"choices": {"scoring": "dot", "logger": "csv"}}}}
    (folder / ".hydra" / "hydra.yaml").write_text(json.dumps(choices))
    (folder / "config.yaml").write_text(json.dumps({"data": {}, **saved}))
    hydra = SimpleNamespace(
        runtime=SimpleNamespace(output_dir=str(into or folder)), overrides=SimpleNamespace(task=options)
    )
    config = OmegaConf.create({"stage": "fit", "allow": [], "resume": str(folder), **composed})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resume.HydraConfig, "get", lambda: hydra)
        patch.setattr(resume, "checked_run", lambda found, *_: found)  # see tests/untrusted
        found: Any = OmegaConf.to_container(resume.resumed_configuration(config))
    return found


def test_saved_options_are_replaced_by_those_given_alone(tmp_path: Path) -> None:
    saved = {
        "seed": 3,
        "scoring": {"bias": True},
        "data": {"seed": 7},
        "notes": "mine",
        "tags": ["a"],
        "callbacks": {"ema": {"decay": 0.9}, "progress_bar": {}},
    }
    composed = {"seed": 1, "scoring": {"bias": False}, "pictures": 9, "window": {}, "notes": None}
    found = _resumed(tmp_path, saved, composed, "scoring=dot", "notes=null", "~tags", "~callbacks.ema")
    assert "tags" not in found
    # `scoring=dot` is what the run had: its options are not those of the group's file
    expected = {**saved, "notes": None, "callbacks": {"progress_bar": {}}, "tags": None}
    assert {key: found.get(key) for key in saved} == expected
    assert (found["pictures"], found["resume"]) == (9, "auto")  # `pictures` is newer than the run
    assert "window" not in found  # a group of which the run had no choice


def test_another_choice_of_a_group_replaces_all_of_it(tmp_path: Path) -> None:
    saved = {"logger": {"csv": {}}, "scoring": {"bias": True}}
    composed = {"logger": {"tensorboard": {}}, "scoring": {"scale": 2}, "notes": "new"}
    found = _resumed(tmp_path, saved, composed, "logger=tensorboard", "scoring=general", "+notes=new")
    assert {part: found[part] for part in composed} == composed  # check_same_options rejects the score


def test_a_run_is_resumed_in_its_own_folder_alone(tmp_path: Path) -> None:
    with pytest.raises(
        LabError, match="resume: choose auto, or a run's folder as resume=<folder> on the comm"
    ):
        _resumed(tmp_path, {}, {}, into=tmp_path / "other")


@pytest.mark.slow
def test_a_run_without_newer_options_resumes(command) -> None:
    done = command("model=nw", "data.train_size=10", "pictures=0", "trainer.max_epochs=1")
    file = done.folder / "config.yaml"
    kept = yaml.safe_load(file.read_text())
    for option in ("ckpt_path", "pictures", "pictures_format", "compile", "threads", "tags", "notes"):
        del kept[option]
    file.write_text(yaml.safe_dump(kept))
    (done.folder / "metrics.json").unlink()
    again = command(f"resume={done.folder}")
    assert again.status == 0 and (done.folder / "metrics.json").is_file(), again.err
