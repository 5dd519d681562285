"""Checks of a resumed run's folder: where it may write and which classes it may name."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from fit_configuration import FIT
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from attention_lab.errors import LabError
from attention_lab.interruption.resume import saved_configuration
from attention_lab.interruption.resume_option import expand_resume
from attention_lab.runs.run_names import register_resolvers
from attention_lab.untrusted.configuration import check_targets, check_values
from attention_lab.untrusted.folder_links import check_links
from attention_lab.untrusted.run_configuration import checked_run

CONF = Path(__file__).parents[2] / "conf"


def _with(path: str, value: Any) -> dict[str, Any]:
    found: Any = OmegaConf.create(FIT)
    OmegaConf.update(found, path, value, force_add=True)
    plain: dict[str, Any] = OmegaConf.to_container(found)  # type: ignore[assignment]
    return plain


def test_paths_are_moved_to_the_present_folder() -> None:
    found = checked_run(FIT, Path("/new/place"), "x/config.yaml")
    assert found["trainer"]["default_root_dir"] == "/new/place"
    assert {one["dirpath"] for one in found["callbacks"].values()} == {"/new/place/checkpoints"}
    assert found["logger"]["csv"]["save_dir"] == "/new/place"
    assert found["data"]["path"] == "/data/mine.csv"  # only read


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("callbacks.checkpoint.dirpath", "/etc", "not in the run's folder"),
        ("callbacks.checkpoint.dirpath", "local:///etc", "not in the run's folder"),
        ("callbacks.checkpoint.dirpath", "elsewhere", "not in the run's folder"),
        ("callbacks.checkpoint.dirpath", "/old/run/checkpoints/../../etc", "not in the run's folder"),
        ("callbacks.checkpoint.filename", "../../etc/x", "not in the run's folder"),
        ("callbacks.checkpoint.filename", "/etc/x", "not in the run's folder"),
        ("callbacks.checkpoint.filename", "a/b", "not a file name"),
        *(
            ("callbacks.checkpoint.filename", name, "not a file name")
            for name in (
                *("{epoch:c}tmp{epoch:c}x", "{x:/>2}", "{/etc/x}", "{epoch:2000000000}", "{epoch:.999f}"),
                *(
                    "{epoch:q}",
                    "{epoch!r}",
                    "{0}",
                    "{}",
                    "a}b",
                    "{a",
                    "{a{b}}",
                    "{validation/mse:02d}",
                    "a\nb",
                ),
                *("{a[0]}", "", "a" * 300),
            )
        ),
        ("callbacks.resumable.dirpath", "~/x", "not in the run's folder"),
        ("logger.csv.save_dir", "/tmp/x", "not in the run's folder"),
        ("logger.csv.version", "../x", "not in the run's folder"),
        ("ckpt_path", "/**/none*.ckpt", "which is a pattern: give ckpt_path=... on the command line"),
        ("ckpt_path", ["x.ckpt", "/*/*/*"], "which is a pattern: give ckpt_path=... on the command line"),
        ("logger.wandb.entity", "somebody", "give logger.wandb.entity=... on the command line"),
        *(
            ("logger.mlflow.tracking_uri", place, "give logger.mlflow.tracking_uri=... on the command line")
            for place in ("https://example.org", "file:/tmp/x", "relative", "databricks", "http:evil")
        ),
        ("callbacks.checkpoint.dirpath", ["/old/run"], "must be text or null"),
        ("callbacks.checkpoint.folder", ["/old/run"], "give callbacks.checkpoint.folder=... on the"),
        ("trainer.default_root_dir", 5, "must be text or null"),
        ("logger.csv.name", "/tmp", "not in the run's folder"),
        ("logger.csv.version", "{a/b}", "not a file name"),
        ("logger.csv.name", "x" * 300, "not a file name"),
        ("trainer.profiler", "simple", "which is not read from a file: if you want it"),
        ("trainer.plugins", [], "which is not read from a file: if you want it"),
        ("trainer.devices", 10**6, "at most"),
        ("trainer.devices", " 999 ", "at most"),
        ("trainer.devices", "9" * 5000, "at most"),
        ("trainer.num_nodes", 2, "torchrun or srun"),
        ("trainer._target_", "attention_lab.models.KernelRegression", "not a trainer"),
        ("trainer._target_", "os.mkdir", r"names 'os.mkdir'"),
        ("callbacks.mine", {"_target_": "my_package.Mine"}, r"add 'allow=\[my_package\]'"),
        ("callbacks.mine", {"a": [{"_target_": "pytorch_lightning.callbacks.LambdaCallback"}]}, "names"),
        *(  # each of them would be built, wherever it is, before anyone asks whether the option exists
            (f"{part}.more", {"_target_": target, "folder": "/etc"}, f"names '{target}' inside ")
            for part, target in (
                ("model", "attention_lab.loggers.MLFlowRunLogger"),
                ("data", "pytorch_lightning.Trainer"),
                ("optimizer", "attention_lab.loggers.WandbRunLogger"),
                ("callbacks.checkpoint", "attention_lab.models.KernelRegression"),
                ("model.a.b", "attention_lab.data.Reverse"),
            )
        ),
        ("callbacks.pruning", {"study": {"storage": "sqlite:////etc/x"}}, "command of the search"),
        ("model._target_", "attention_lab.data.reading.files.Path", "names"),
        ("model.scan", 3, "true or false"),
        ("data._args_", ["x"], "has the option '_args_'"),
        ("optimizer._partial_", "x", "true or false"),
        ("optimizer.lr", float("nan"), "finite"),
        ("optimizer._target_", "torch.load", "names"),
        ("stage", "predict", "cannot be resumed: run its command again"),
        ("stage", "leaderboard", "cannot be resumed: run its command again"),
    ],
)
def test_refused(path: str, value: Any, message: str) -> None:
    with pytest.raises(LabError, match=message) as caught:
        checked_run(_with(path, value), Path("/new/place"), "x/config.yaml")
    assert str(caught.value).startswith("x/config.yaml") and len(str(caught.value).splitlines()) == 1


def test_a_process_for_each_core_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2})
    assert checked_run(_with("trainer.devices", 3), Path("/new"), "x")["trainer"]["devices"] == 3
    with pytest.raises(LabError, match=r"x has trainer\.devices=4: here it may be at most 3, unless"):
        checked_run(_with("trainer.devices", 4), Path("/new"), "x")
    checked_run(_with("trainer.devices", 4), Path("/new"), "x", given=["trainer.devices"])


@pytest.mark.parametrize("root", [None, "", "/somewhere/else"])
def test_a_run_writes_to_its_folder_even_if_none_is_named(root: Any) -> None:
    found = _with("trainer.default_root_dir", root)
    found["callbacks"] = {"checkpoint": {"_target_": "pytorch_lightning.callbacks.ModelCheckpoint"}}
    found["logger"] = {}
    assert checked_run(found, Path("/new"), "x")["trainer"]["default_root_dir"] == "/new"
    del found["trainer"]["default_root_dir"]
    assert checked_run(found, Path("/new"), "x")["trainer"]["default_root_dir"] == "/new"


@pytest.mark.parametrize(
    ("path", "given"),
    [
        ("callbacks.checkpoint.dirpath", ["callbacks.checkpoint.dirpath"]),
        ("callbacks.checkpoint.dirpath", ["callbacks"]),
        ("logger.mlflow.tracking_uri", ["logger.mlflow.tracking_uri"]),
        ("trainer.profiler", ["trainer.profiler"]),
        ("logger.mlflow.entity", ["model", "logger"]),
    ],
)
def test_options_given_on_the_command_line_replace_those_in_the_file(path: str, given: list[str]) -> None:
    found = checked_run(_with(path, "/elsewhere"), Path("/new"), "x", given=["seed", "model.x.y", *given])
    assert "/elsewhere" not in str(found) and found["trainer"]["default_root_dir"] == "/new"
    with pytest.raises(LabError, match=path):
        checked_run(_with(path, "/elsewhere"), Path("/new"), "x", given=[f"{path}.x", "trainer"])


@pytest.mark.parametrize(
    "name",
    [
        *("best", "{epoch}-{step}", "best-{validation/mse:.2f}", "{epoch:02d} {step:d}", "{lr-Adam/pg1:.1e}"),
        None,
    ],
)
def test_names_of_checkpoints(name: str | None) -> None:
    found = checked_run(_with("callbacks.checkpoint.filename", name), Path("/new/place"), "x/config.yaml")
    assert found["callbacks"]["checkpoint"]["filename"] == name


@pytest.mark.parametrize("text", ["${oc.env:SECRET}", "${model.scan}", "${oc.create:{_target_:os.mkdir}}"])
def test_nothing_is_resolved(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({**FIT, "inputs": text}))
    with pytest.raises(LabError, match="not a plain value"):
        saved_configuration(tmp_path, "x")


@pytest.mark.parametrize("text", ["", "[]", "a: [", "- x", "trainer: {}\n", "x: &a [*a]\n"])
def test_no_configuration(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(LabError, match=r"x/config.yaml"):
        saved_configuration(tmp_path, "x")


def test_only_choices_that_exist_in_conf_are_repeated(tmp_path: Path) -> None:
    choices = {
        "model": "nw",
        "data": "../../evil",
        "scoring": "none_such",
        "logger": "csv",
        "experiment": "crossover",
        "launcher": "slurm",
        "hydra/launcher": "joblib",
        "stage": "predict",
    }
    (tmp_path / ".hydra").mkdir()
    hydra = {
        "hydra": {"runtime": {"choices": choices}, "overrides": {"hydra": ["+optimizer@hydra.launcher=adam"]}}
    }
    (tmp_path / ".hydra" / "hydra.yaml").write_text(yaml.safe_dump(hydra))
    overrides = ["hydra.run.dir=/etc", "++stage=predict", "+optimizer@hydra.launcher=adam", "run=/etc"]
    (tmp_path / ".hydra" / "overrides.yaml").write_text(yaml.safe_dump(overrides))
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(FIT))
    line = expand_resume([f"resume={tmp_path}", "pictures=0", "logger=none"], CONF)
    assert line == [
        "model=nw",
        "pictures=0",
        "logger=none",
        f'hydra.run.dir="{tmp_path}"',
        "hydra.output_subdir=null",
        f'resume="{tmp_path}"',
    ]
    assert expand_resume(line, CONF) == line


def _outside(folder: Path, other: Path) -> None:
    (folder / "train.log").symlink_to(other / "file")


def _folder_outside(folder: Path, other: Path) -> None:
    (folder / "tensorboard").symlink_to(other)


def _through_a_link(folder: Path, other: Path) -> None:
    (folder / "here").symlink_to(".")
    (folder / "checkpoints").symlink_to(f"here/../{other.name}")


def _dangling(folder: Path, other: Path) -> None:
    (folder / "train.log").symlink_to(other / "not_yet")


def _hard_link(folder: Path, other: Path) -> None:
    os.link(other / "file", folder / "train.log")


def _pipe(folder: Path, _: Path) -> None:
    os.mkfifo(folder / "train.log")


def _folder_as_log(folder: Path, _: Path) -> None:
    (folder / "train.log").mkdir()


def _link_to_itself(folder: Path, _: Path) -> None:
    (folder / "train.log").symlink_to("train.log")


def _deep(folder: Path, _: Path) -> None:
    folder.joinpath(*["d"] * 101).mkdir(parents=True)


@pytest.mark.parametrize(
    "alter",
    [
        *(_outside, _folder_outside, _through_a_link, _dangling, _hard_link, _pipe, _folder_as_log),
        *(_link_to_itself, _deep, lambda folder, _: (folder / "mlflow.db").mkdir()),
    ],
)
def test_links_out_of_the_folder(alter: Callable[[Path, Path], None], tmp_path: Path) -> None:
    folder, other = tmp_path / "run", tmp_path / "canary"
    folder.mkdir()
    other.mkdir()
    (other / "file").write_text("precious")
    (folder / "config.yaml").write_text(yaml.safe_dump(FIT))
    (folder / "checkpoints_kept").mkdir()
    (folder / "latest").symlink_to("checkpoints_kept")
    check_links(folder)
    alter(folder, other)
    with pytest.raises(LabError) as caught:
        expand_resume([f"resume={folder}"], CONF)
    assert str(folder) in str(caught.value) and len(str(caught.value).splitlines()) == 1


@pytest.mark.long
@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.slow)])
def test_configurations_composed_from_conf_pass(tmp_path: Path, every: int) -> None:
    register_resolvers()
    models = {path.stem for path in (CONF / "model").glob("*.yaml")}
    chosen = [[f"model={one}"] for one in sorted(models)]
    kinds = {"nw": "regression", "multihead": "classification", "seq2seq": "transduction"}
    for path in sorted((CONF / "data").glob("*.yaml")):
        kind = yaml.safe_load(path.read_text().replace("${", "x"))["data"]["kind"]
        chosen += [[f"model={model}", f"data={path.stem}"] for model, one in kinds.items() if one == kind]
    for group in ("scoring", "normalizer", "window", "pooling", "optimizer", "schedule", "callbacks"):
        chosen += [[f"{group}={path.stem}"] for path in sorted((CONF / group).glob("*.yaml"))]
    with initialize_config_dir(config_dir=str(CONF), version_base="1.3"):
        for choices in chosen[::every]:
            composed = compose("config", choices, return_hydra_config=True)
            composed.hydra.runtime.output_dir = str(tmp_path)
            OmegaConf.set_readonly(composed, False)
            plain: Any = OmegaConf.to_container(composed, resolve=False)
            plain = {key: value for key, value in plain.items() if key != "hydra"}
            text = yaml.safe_dump(plain).replace("${hydra:runtime.output_dir}", str(tmp_path))
            text = text.replace("${monitor.metric}", "validation/loss").replace("${monitor.mode}", "min")
            found = yaml.safe_load(text)
            if any("???" in str(one) for one in found["data"].values()):
                found["data"] = {key: value for key, value in found["data"].items() if value != "???"}
            assert checked_run(found, tmp_path, "x")["stage"] == "fit", choices
            recipe = {part: found[part] for part in ("model", "task", "scoring", "data")}
            check_targets(recipe, "x")
            check_values(recipe, "x")
