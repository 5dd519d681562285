"""Options of a part are checked against its class before it is built."""

import re
from typing import Any

import pytest

from attention_lab.attention import Dot
from attention_lab.errors import LabError
from attention_lab.experiment.part_options import check_option_types, check_part_options, not_an_option

ATTENTION, TASK = "attention_lab.attention", "attention_lab.tasks.Transduction"
OwnScore = type("OwnScore", (Dot,), {})


@pytest.mark.parametrize("others", [{}, {"hidden_size": "many"}])
def test_an_option_that_a_class_takes_for_true_is_named(others: dict[str, Any]) -> None:
    target = "attention_lab.attention.Additive"
    with pytest.raises(LabError, match=r"^scoring\.compiled=maybe must be true, false or null$"):
        check_option_types({"scoring": {"_target_": target, "compiled": "maybe", **others}})


@pytest.mark.parametrize(
    "target", ["attention_lab.models.Nothing", "attention_lab.nothing.Model", "attention_lab.models"]
)
def test_a_class_that_cannot_be_found_is_left_to_what_builds_it(target: str) -> None:
    check_option_types({"model": {"_target_": target, "heads": "four"}})


@pytest.mark.parametrize(
    ("part", "node", "message"),
    [
        (
            "pooling",
            {"_target_": f"{ATTENTION}.Softmax"},
            f"pooling._target_={ATTENTION}.Softmax is not in {ATTENTION}.pooling: choose a class for pooling",
        ),
        (
            "model",
            {"_target_": "attention_lab.models.parts.readouts.Mean"},
            "model._target_=attention_lab.models.parts.readouts.Mean is not made from a mechanism and sizes: "
            "choose a class for model",
        ),
        (
            "normalizer",
            {"_target_": f"{__name__}.OwnScore"},
            f"normalizer._target_={__name__}.OwnScore is a score: choose a class for normalizer",
        ),
        *(
            (
                part,
                {"_target_": target, option: 3},
                f"{part}.{option}=3 has no effect, as the program sets it: leave it out",
            )
            for part, target, option in (
                ("scoring", "my_package.Score", "query_size"),
                ("window", f"{ATTENTION}.Band", "heads"),
                ("normalizer", f"{ATTENTION}.SinkSoftmax", "heads"),
                ("task", TASK, "optimizer"),
            )
        ),
    ],
)
def test_wrong_classes_and_options_of_a_part_are_rejected(
    part: str, node: dict[str, Any], message: str
) -> None:
    with pytest.raises(LabError, match=f"^{re.escape(message)}$"):
        check_part_options({part: node})


@pytest.mark.parametrize(
    "target", ["my_package.Pooling", f"{ATTENTION}.NoSuchPooling", f"{ATTENTION}.Soft", None]
)
def test_a_class_that_may_be_a_part_or_cannot_be_found_is_left_to_the_code_that_builds_it(
    target: str | None,
) -> None:
    check_part_options(
        {"pooling": {"_target_": target}, "scoring": {"_target_": "my_package.Score", "size": 3}}
    )


@pytest.mark.parametrize("option", ["kwargs", "kwarg"])
def test_the_names_of_variable_arguments_are_not_suggested(option: str) -> None:
    said = not_an_option("pooling", option, f"{ATTENTION}.Soft", [option])
    assert said.startswith(f"pooling.{option} is not an option of Soft: leave it out")
