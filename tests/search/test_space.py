"""The search space of a model, from its file and the command line."""

from typing import Any

import pytest
from omegaconf import OmegaConf

from attention_lab.errors import LabError
from attention_lab.search import space

CONFIG: Any = OmegaConf.create(
    {"sweep": {"space": None}, "hydra": {"runtime": {"choices": {"model": "mine"}}}}
)


@pytest.mark.parametrize(
    ("file", "told"),
    [
        (
            {},
            r"nothing is searched; give a range, .*, or write such ranges to search/mine\.yaml",
        ),
        (
            {"hydra": {"sweeper": {"params": {"model.size": "choice(8,16)"}}}},
            r"^search/mine\.yaml: hydra must be a range or a value, such as choice\(8,16\), not ",
        ),
    ],
)
def test_what_is_wrong_with_a_file_of_ones_own_is_told(
    file: dict[str, Any], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(space, "group_files", lambda group: {"mine": OmegaConf.create(file)}.items())
    loader: Any = None
    with pytest.raises(LabError, match=told):
        space.read_space(CONFIG, [], loader)
