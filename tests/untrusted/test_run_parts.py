"""Each part of a run's saved configuration must be there and of its kind."""

from pathlib import Path
from typing import Any

import pytest
from fit_configuration import FIT
from omegaconf import OmegaConf

from attention_lab.errors import LabError
from attention_lab.untrusted.run_configuration import checked_run


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        *(
            (part, value, f"has no class for {part}: it needs {part}._target_")
            for part in ("data", "model", "task", "scoring", "optimizer", "schedule")
            for value in (5, "x", [], {}, {"a": 1})
        ),
        *(
            (part, value, f"has no {part}")
            for part in ("callbacks", "logger", "monitor")
            for value in (5, None)
        ),
        *((f"{part}.x", 5, f"has no class for {part}.x") for part in ("callbacks", "logger")),
        ("task", None, "has no class for task"),
        ("monitor", {}, r"has monitor.mode=null: it must be min or max"),
        ("monitor", {"mode": "min", "metric": 3}, r"has monitor.metric=3: it must be text or null"),
        ("seed", "x", r"has seed=x: it must be a whole number or null"),
        ("seed", [1], r"has seed=\[1\]: it must be a whole number"),
        ("ckpt_path", 5, r"has ckpt_path=5: it must be text, a list of text or null"),
        ("ckpt_path", [{"a": 1}], r"it must be text, a list of text or null"),
        ("pictures", "x", r"has pictures=x: it must be a whole number"),
        ("data.kind", None, r"has data.kind=null: it must be text"),
        *(
            (
                f"{path}._target_",
                target,
                f"has {path}._target_={target}, which is not a class for {path.split('.')[0]}",
            )
            for path, target in (
                ("callbacks.checkpoint", "pytorch_lightning.Trainer"),
                ("callbacks.checkpoint", "attention_lab.data.Sine"),
                ("callbacks.checkpoint", "attention_lab.tasks.schedules.constant"),
                ("callbacks.checkpoint", "attention_lab.loggers.TensorBoardRunLogger"),
                ("logger.csv", "attention_lab.callbacks.Progress"),
                ("model", "attention_lab.tasks.Regression"),
                ("task", "torch.optim.Adam"),
                ("optimizer", "attention_lab.models.KernelRegression"),
            )
        ),
        *(
            (
                f"{part}._target_",
                f"attention_lab.{target}",
                f"as its {part}, which is not a {base}: it is not",
            )
            for part, target, base in (
                ("data", "data.synthetic.listops.Grammar", "DataModule"),
                ("data", "data.graph.LabelledGraph", "DataModule"),
                ("task", "tasks.language.Perplexity", "Task"),
                ("model", "models.specs.recurrent.Seq2SeqSpec", "Module"),
                ("window", "attention.windows.Span", "Module"),
            )
        ),
        (
            "logger.csv._target_",
            "attention_lab.loggers.RunLogger",
            "names 'attention_lab.loggers.RunLogger', which is not part of attention-lab: it is not loaded",
        ),
        (
            "callbacks.checkpoint._target_",
            "attention_lab.callbacks.Pruning",
            "names 'attention_lab.callbacks.P",
        ),
        (
            "callbacks.checkpoint._target_",
            "attention_lab.callbacks.Nothing",
            "names 'attention_lab.callbacks.N",
        ),
        *(
            (f"{part}._partial_", False, f"has no {part}._partial_=true, which this part needs")
            for part in ("optimizer", "schedule", "scoring", "normalizer", "window", "pooling")
        ),
        ("optimizer._target_", "torch.optim.Nothing", "names 'torch.optim.Nothing'"),
        ("optimizer._target_", "torch.optim.Optimizer", "names 'torch.optim.Optimizer'"),
    ],
)
def test_parts_of_another_kind(path: str, value: Any, message: str) -> None:
    found: Any = OmegaConf.to_container(OmegaConf.create(FIT))
    *parents, last = path.split(".")
    node = found
    for parent in parents:
        node = node[parent]
    node[last] = value
    with pytest.raises(LabError, match=message) as caught:
        checked_run(found, Path("/new/place"), "x/config.yaml")
    assert str(caught.value).startswith("x/config.yaml ") and len(str(caught.value).splitlines()) == 1


def test_parts_that_a_configuration_must_have() -> None:
    newer = {"seed", "ckpt_path"}  # resuming takes them from conf/, as all options that are newer than a run
    for part in FIT.keys() - {"stage", "trainer"}:
        found = {key: value for key, value in FIT.items() if key != part}
        if part in newer:
            checked_run(found, Path("/new"), "x")
        else:
            with pytest.raises(LabError, match=rf"^x has no {part}\b.* must have$"):
                checked_run(found, Path("/new"), "x")
    for part in ("optimizer", "schedule"):
        checked_run({**FIT, part: None}, Path("/new"), "x")
