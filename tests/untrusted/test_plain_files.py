"""YAML and JSON files that would take too much time, memory or nesting are rejected in one line."""

import time
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from attention_lab.errors import LabError
from attention_lab.untrusted.plain_files import read_json, read_yaml

PRIME = 2**61 - 1  # integers hash to their remainder by this number


def _keys(keys: list[str]) -> str:
    return "a:\n  b: {" + ",".join(f"{key}: 1" for key in keys) + "}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (_keys([str(PRIME * n) for n in range(1, 4_000)]), f"the key {PRIME}"),
        (_keys([hex(PRIME * n) for n in range(1, 4_000)]), f"the key {hex(PRIME)}"),
        (_keys([f"-{PRIME}"]), f"the key -{PRIME}"),
        ("- [{x: {1048576: 1}}]", "the key 1048576"),
        ("a: {1" + "0" * 50 + ": 1}", "the key 1000"),
        ("{? [{9999999999: 1}] : 1}", "the key 9999999999"),
        ("a: {" + "<<: {}," * 4_000 + "}", "the key <<"),
    ],
)
def test_keys_that_could_collide_are_rejected_quickly(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    start = time.process_time()
    with pytest.raises(LabError) as error:
        read_yaml(path)
    assert time.process_time() - start < 2
    assert str(error.value).startswith(f"config.yaml cannot be read: {said}")
    assert str(error.value).endswith("keys must be text, or whole numbers of at most 1048575")


@pytest.mark.parametrize("text", ["[" + "a," * 10_000 + "]", "{a: " * 20 + "[[], " * 9 + "{}, " * 10_000])
def test_a_file_of_very_many_values_is_rejected_before_any_is_built(text: str, tmp_path: Path) -> None:
    """Resuming a run with 95,000 of them would take 40 seconds."""
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(LabError, match=r"^config.yaml cannot be read: it has more than 10,000 values$"):
        read_yaml(path)


@pytest.mark.parametrize("before", ["", "\ufeff", "# mine\r", "--- 1\n...\u2028"])
def test_directives_are_rejected_before_they_are_read(before: str, tmp_path: Path) -> None:
    """Each is compared with all before it: a file of 4 MB would take more than ten minutes."""
    path = tmp_path / "config.yaml"
    path.write_text(before + "".join(f"%TAG !{number}! a\n" for number in range(20_000)) + "--- {a: 1}\n")
    start = time.process_time()
    with pytest.raises(LabError, match=r"^config.yaml cannot be read: it has directives \(%TAG !0! a\)$"):
        read_yaml(path)
    assert time.process_time() - start < 1
    path.write_text("a: '100\n  %'\nb: |\n  %TAG\n")
    assert read_yaml(path) == {"a": "100 %", "b": "%TAG\n"}


def test_other_keys_are_read_as_before(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(
        "a: {3: x, -1: y, '9999999999': z, 1048575: v, 0x10: w, true: t, null: n, '<<': m, 0.5: f}\n"
    )
    assert read_yaml(path) == {
        "a": {
            3: "x",
            -1: "y",
            "9999999999": "z",
            1048575: "v",
            16: "w",
            True: "t",
            None: "n",
            "<<": "m",
            0.5: "f",
        }
    }
    path.write_text("")
    assert read_yaml(path) is None
    path.write_text("a: 1\n---\nb: 2\n")
    with pytest.raises(LabError, match="expected a single document"):
        read_yaml(path)


@pytest.mark.parametrize("depth", [31, 900])
def test_deeply_nested_json_is_rejected(depth: int, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for open_, close in (("[", "]"), ('{"a":', "}")):
        path.write_text(open_ * depth + "1" + close * depth)
        with pytest.raises(LabError, match=r"^x.json cannot be read: it has more than 30 levels of options$"):
            read_json(path)
    path.write_text("[" * 29 + "1" + "]" * 29)
    read_json(path)


def test_yaml_nested_as_deeply_as_allowed_can_be_a_configuration(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("{a: " * 30 + "1" + "}" * 30)
    OmegaConf.to_container(OmegaConf.create(read_yaml(path)), resolve=True)
    path.write_text("{a: " * 31 + "1" + "}" * 31)
    with pytest.raises(
        LabError, match=r"^config.yaml cannot be read: it has more than 30 levels of options$"
    ):
        read_yaml(path)
