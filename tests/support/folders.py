"""Run folders like those of training, made without any."""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from attention_lab.runs.results import write_training_options

RATE = "test/token_error_rate"


def make_run(
    folder: Path,
    metrics: Mapping[str, Any] | str | None = None,
    *,
    seed: int = 1,
    choices: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
    overrides: Sequence[str] = (),
    number: int | None = None,
    edits: Sequence[int] | None = None,
    stage: str = "fit",
) -> Path:
    """A folder with `.hydra`, `config.yaml`, `metrics.json` (a text is written as it is) and predictions.

    `edits` are those of examples with references of four symbols each.
    """
    (folder / ".hydra").mkdir(parents=True)
    config = {
        "stage": stage,
        "seed": seed,
        "monitor": {"metric": RATE.replace("test/", "validation/"), "mode": "min"},
        "trainer": {"default_root_dir": str(folder), "max_epochs": 3},
        "callbacks": {"checkpoint": {"dirpath": f"{folder}/checkpoints"}},
        **(options or {}),
    }
    hydra = {"job": {} if number is None else {"num": number}}
    hydra["runtime"] = {"choices": {"data": "reverse", "hydra/help": "x", **(choices or {})}}
    for path, content in {
        folder / ".hydra" / "overrides.yaml": list(overrides),
        folder / ".hydra" / "hydra.yaml": {"hydra": hydra},
        folder / ".hydra" / "config.yaml": config,
        folder / "config.yaml": config,
    }.items():
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
    if stage == "test":
        write_training_options(folder, config)
    if metrics is not None:
        text = metrics if isinstance(metrics, str) else json.dumps(metrics)
        (folder / "metrics.json").write_text(text, encoding="utf-8")
    if edits is not None:
        rows = [f"source {row}\tx\ta b c d\t{one}" for row, one in enumerate(edits)]
        table = "\n".join(["source\toutput\treference\tedits", *rows])
        (folder / "predictions.tsv").write_text(table + "\n", encoding="utf-8")
    return folder


def make_sweep(folder: Path, rates: Mapping[str, Sequence[float]], metric: str = RATE) -> Path:
    """A sweep over scores, with a value for each of the seeds 1, 2, ..."""
    for score, values in rates.items():
        for seed, value in enumerate(values, start=1):
            make_run(
                folder / f"{score}_{seed}",
                {metric: value, "parameters": 1000.0, "fit/steps_per_second": 20.0 + seed},
                seed=seed,
                choices={"scoring": score},
                overrides=[f"scoring={score}", f"seed={seed}"],
            )
    return folder


def read_table(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file, by the names of its columns."""
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def metrics_of(folder: Path) -> dict[str, float]:
    """The metrics of a run."""
    found: dict[str, float] = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    return found


def measured_in(folder: Path) -> dict[str, dict[str, float]]:
    """What the runs below a folder have measured, without what depends on the machine."""
    return {
        path.parent.name if path.parent != folder else "": {
            name: value
            for name, value in json.loads(path.read_text()).items()
            if not any(part in name for part in ("seconds", "per_second", "memory"))
        }
        for path in sorted(folder.rglob("metrics.json"))
    }
