"""The table of stages against the functions that exist."""

from pkgutil import resolve_name

import pytest
from omegaconf import OmegaConf

from attention_lab.errors import LabError
from attention_lab.experiment import STAGES, choose_stage
from attention_lab.runs import run_folder


@pytest.mark.parametrize("name", STAGES)
def test_every_stage_is_where_the_table_says(name: str) -> None:
    stage = resolve_name(STAGES[name])
    assert callable(stage)
    assert f"{stage.__module__}:{stage.__name__}" == STAGES[name]


def test_stages_with_metrics_are_stages() -> None:
    assert set(run_folder.STAGES_WITH_METRICS) <= set(STAGES)


def test_an_unknown_stage_is_refused() -> None:
    with pytest.raises(LabError, match=r"^stage=fitt is unknown: choose fit, test, predict, report"):
        choose_stage(OmegaConf.create({"stage": "fitt"}))
