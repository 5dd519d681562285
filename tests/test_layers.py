"""The subpackages of the package and the directions of their imports, as in CONTRIBUTING.md."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

REPOSITORY = Path(__file__).parents[1]
PACKAGE = REPOSITORY / "src" / "attention_lab"

LIGHTNING = {"pytorch_lightning", "lightning", "lightning_fabric"}
HYDRA = {"hydra", "omegaconf", "hydra_plugins"}
PICTURES = {"matplotlib", "tensorboard", "tensorboardX"}
TORCH = {"torch", "torchmetrics"}


class Rules(NamedTuple):
    """What a subpackage may use of ours, and what it may not use of others'."""

    uses: set[str]
    bans: set[str]


OTHERS = {"transformers", "x_transformers"}  # whose models are recorded, if a program has imported them
LEAVES = {
    *("argument_checks", "config_parts", "console_text", "constructor_options", "distributed", "errors"),
    *("files", "job_line", "lazy_names", "lightning_import", "machine", "sizes", "special_symbols"),
    *("text_tables",),
}
LIGHT = TORCH | LIGHTNING | HYDRA
SUBPACKAGES = {
    # attention_lab/__init__.py: lazily
    "": Rules({"attention", "experiment", "inference", "notebook"}, LIGHT),
    "__main__": Rules({"inference"}, LIGHT),
    **dict.fromkeys(
        ("console_text", "errors", "lazy_names", "sizes", "special_symbols"), Rules(set(), LIGHT)
    ),
    "argument_checks": Rules({"errors"}, LIGHT),
    "config_parts": Rules({"sizes"}, LIGHT),
    "constructor_options": Rules({"argument_checks"}, LIGHT),
    "distributed": Rules(set(), LIGHTNING | HYDRA | PICTURES),
    "lightning_import": Rules(set(), TORCH | HYDRA),
    "files": Rules({"errors", "machine"}, LIGHT),
    "job_line": Rules({"console_text"}, LIGHT),
    "machine": Rules({"errors"}, LIGHT),
    "text_tables": Rules({"console_text"}, LIGHT),
    "attention": Rules(LEAVES, LIGHTNING | HYDRA | PICTURES | {"torch.utils.tensorboard"} | OTHERS),
    "models": Rules(LEAVES | {"attention"}, LIGHTNING | HYDRA | PICTURES | {"torch.utils.tensorboard"}),
    "estimators": Rules(LEAVES | {"attention"}, LIGHTNING | HYDRA | PICTURES | {"torch.utils.tensorboard"}),
    "data": Rules(LEAVES, HYDRA | PICTURES),
    "metrics": Rules(LEAVES, LIGHTNING | HYDRA),
    "tasks": Rules(LEAVES | {"attention", "models", "metrics", "data", "viz", "tensorboard_plugin"}, HYDRA),
    # matplotlib only inside of a function: see test_pictures_import_no_matplotlib
    # and the plugin for the colours that its pages share with pictures
    "viz": Rules({"errors", "tensorboard_plugin"}, LIGHT | (PICTURES - {"matplotlib"})),
    # TensorBoard imports it when it starts
    "tensorboard_plugin": Rules(
        {"errors", "files", "lazy_names", "machine"}, LIGHT | (PICTURES - {"tensorboard"})
    ),
    # torch only inside of a function: weights may be arrays
    "notebook": Rules(
        LEAVES | {"attention", "viz", "tensorboard_plugin"},
        LIGHTNING | HYDRA | PICTURES | {"torch.utils.tensorboard"},
    ),
    "untrusted": Rules(LEAVES, LIGHTNING | HYDRA | PICTURES),
    "loggers": Rules(LEAVES | {"viz", "tensorboard_plugin"}, HYDRA),
    "callbacks": Rules(
        LEAVES
        | {"attention", "metrics", "data", "tasks", "viz", "tensorboard_plugin", "untrusted", "loggers"},
        HYDRA,
    ),
    "theorems": Rules(LEAVES | {"attention", "models", "viz"}, LIGHTNING | HYDRA | PICTURES),
    "commandline": Rules(LEAVES, TORCH | LIGHTNING | PICTURES),
    "runs": Rules(LEAVES | {"commandline", "untrusted"}, TORCH | LIGHTNING | PICTURES),
    "interruption": Rules(LEAVES | {"commandline", "untrusted", "runs", "data"}, PICTURES),
    "leaderboard": Rules(LEAVES | {"commandline", "runs", "viz"}, TORCH | LIGHTNING | PICTURES),
    # what it uses of tasks imports no Lightning either
    "inference": Rules(
        LEAVES | {"attention", "models", "data", "tasks", "untrusted"},
        LIGHTNING | HYDRA | PICTURES | {"torch.utils.tensorboard"},
    ),
    "search": Rules(LEAVES | {"commandline", "runs", "leaderboard"}, TORCH | LIGHTNING | PICTURES),
    "report": Rules(
        LEAVES | {"commandline", "runs", "leaderboard", "tensorboard_plugin"}, TORCH | LIGHTNING | PICTURES
    ),
    # wires all the others but estimators and notebook
    "experiment": Rules(
        LEAVES
        | {"attention", "models", "metrics", "data", "tasks", "viz", "loggers", "callbacks", "theorems"}
        | {"commandline", "untrusted", "runs", "inference", "interruption", "leaderboard", "search"}
        | {"report"},
        PICTURES - {"tensorboard"},
    ),
}


class Import(NamedTuple):
    """One imported name, absolute, and the line that imports it."""

    name: str
    line: int


def imports(source: str, module: str, *, is_package: bool = False) -> Iterator[Import]:
    """Yield every import anywhere in a module, in functions too; `from a import b` gives `a.b`."""
    parents = module.split(".") if is_package else module.split(".")[:-1]
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names):
                yield from (Import(alias.name, node.lineno) for alias in names)
            case ast.ImportFrom(base, names, level):
                prefix = parents[: len(parents) - level + 1] if level else []
                start = ".".join([*prefix, *([base] if base else [])])
                yield from (Import(f"{start}.{alias.name}", node.lineno) for alias in names)
            case ast.Call(
                ast.Name("import_module" | "__import__") | ast.Attribute(attr="import_module"),
                [ast.Constant(str() as name), *_],
            ):
                yield Import(name, node.lineno)


def subpackage_of(module: str) -> str:
    """Return the first name below attention_lab; the package itself is the subpackage ''."""
    return module.split(".")[1] if "." in module else ""


def violations(source: str, module: str, *, is_package: bool = False) -> list[str]:
    """Say what a module imports in violation of the rules of its subpackage."""
    own = subpackage_of(module)
    found = []
    for name, line in imports(source, module, is_package=is_package):
        if name.split(".")[0] == "attention_lab":
            allowed = subpackage_of(name) in SUBPACKAGES[own].uses | {own}
        else:
            allowed = not any(name == ban or name.startswith(f"{ban}.") for ban in SUBPACKAGES[own].bans)
        if not allowed:
            found.append(f"{module}:{line} imports {name}")
    return found


def cycle(uses: dict[str, set[str]]) -> list[str]:
    """Return the subpackages of an import cycle, if there is one."""
    try:
        TopologicalSorter(uses).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def modules() -> list[tuple[str, Path]]:
    """Every module of the package, with its dotted name."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found.append((".".join(parts[:-1] if parts[-1] == "__init__" else parts), path))
    return found


@pytest.mark.parametrize(("module", "path"), modules(), ids=[module for module, _ in modules()])
def test_a_module_imports_only_what_its_subpackage_may(module: str, path: Path) -> None:
    assert subpackage_of(module) in SUBPACKAGES, "a new subpackage: decide in SUBPACKAGES what it may import"
    assert violations(path.read_text(), module, is_package=path.name == "__init__.py") == []


def test_subpackages_do_not_import_each_other_in_a_circle() -> None:
    uses: dict[str, set[str]] = {}
    for module, path in modules():
        names = [
            found.name
            for found in imports(path.read_text(), module, is_package=path.name == "__init__.py")
            if found.name.startswith("attention_lab.")
        ]
        own = subpackage_of(module)
        uses.setdefault(own, set()).update({subpackage_of(name) for name in names} - {own})
    assert cycle(uses) == []
    assert cycle({name: rules.uses for name, rules in SUBPACKAGES.items()}) == []


@pytest.mark.parametrize(
    "module",
    [
        "attention_lab",
        "attention_lab.viz",
        "attention_lab.errors",
        "attention_lab.notebook",
        "attention_lab.tensorboard_plugin.loader",
        "attention_lab.tensorboard_plugin.plugin",
        "attention_lab.tensorboard_plugin.writer",
    ],
)
def test_light_modules_import_no_torch(module: str) -> None:
    script = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], cwd=PACKAGE.parent, check=False).returncode == 0


def test_pictures_import_no_matplotlib() -> None:
    script = "import sys, attention_lab.viz; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], cwd=PACKAGE.parent, check=False).returncode == 0


def test_formulas_are_plain_text_which_every_reader_shows() -> None:
    """Neither `help` nor the site, which loads no third-party scripts, renders TeX."""
    assert not [
        path
        for path in PACKAGE.rglob("*.py")
        if "math::" in (text := path.read_text("utf-8")) or ":math:" in text
    ]


def test_examples_are_shown_as_code() -> None:
    """The site shows the lines directly below `Example:` as prose, run together."""
    begin = re.compile(r"^ *(For e|E)xamples?:\n(?!\n)", re.MULTILINE)
    assert not [path for path in PACKAGE.rglob("*.py") if begin.search(path.read_text("utf-8"))]


def test_no_folder_is_crowded() -> None:
    counts = {str(folder): len(list(folder.glob("*.py"))) for folder in [PACKAGE, *PACKAGE.rglob("*/")]}
    assert {folder: count for folder, count in counts.items() if count > 15} == {}


def test_no_file_is_long() -> None:
    paths = [REPOSITORY / "train.py", *PACKAGE.rglob("*.py"), *(REPOSITORY / "tests").rglob("*.py")]
    paths += (REPOSITORY / "benchmarks").rglob("*.py")
    lengths = {str(path.relative_to(REPOSITORY)): len(path.read_text().splitlines()) for path in paths}
    assert {path: length for path, length in lengths.items() if length > 300} == {}


@pytest.mark.parametrize(
    ("module", "source", "name"),
    [
        ("attention_lab.attention.scores", "import pytorch_lightning as pl", "pytorch_lightning"),
        ("attention_lab.attention.scores", "import torch.utils.tensorboard", "torch.utils.tensorboard"),
        ("attention_lab.attention.scores", "def f():\n    import matplotlib.pyplot", "matplotlib.pyplot"),
        (
            "attention_lab.attention.scores",
            "from ..models import encoder",
            "attention_lab.models.encoder",
        ),
        ("attention_lab.models.seq2seq", "from attention_lab import data", "attention_lab.data"),
        (
            "attention_lab.data.synthetic.toy",
            "from attention_lab.tasks.task import Task",
            "attention_lab.tasks.task.Task",
        ),
        (
            "attention_lab.data.synthetic.toy",
            "from importlib import import_module\nimport_module('hydra')",
            "hydra",
        ),
        (
            "attention_lab.tasks.task",
            "if True:\n    from omegaconf import DictConfig",
            "omegaconf.DictConfig",
        ),
        ("attention_lab.tasks.task", "from ..callbacks import Pictures", "attention_lab.callbacks.Pictures"),
        ("attention_lab.viz.cells", "from torch import Tensor", "torch.Tensor"),
        ("attention_lab.metrics.entropy", "from attention_lab import viz", "attention_lab.viz"),
        ("attention_lab.callbacks.embeddings", "import hydra", "hydra"),
        ("attention_lab.tensorboard_plugin.plugin", "import torch", "torch"),
    ],
)
def test_the_check_sees_a_forbidden_import(module: str, source: str, name: str) -> None:
    line = source.count("\n") + 1
    assert violations(source, module) == [f"{module}:{line} imports {name}"]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        (
            "attention_lab.attention.scores",
            "import torch\nfrom . import masks\nfrom attention_lab.sizes import PAD",
        ),
        (
            "attention_lab.attention.fast.fused",
            "from ..masks import causal_mask\nfrom ...errors import LabError",
        ),
        ("attention_lab.viz.cells", "import torchvision_like_name, numpy"),
        ("attention_lab.experiment.build", "import hydra\nfrom attention_lab import callbacks, models"),
    ],
)
def test_the_check_lets_the_rest_pass(module: str, source: str) -> None:
    assert violations(source, module) == []


def test_relative_imports_of_a_package_start_at_itself() -> None:
    found = imports("from .scores import Dot\nfrom .. import viz", "attention_lab.attention", is_package=True)
    assert [found.name for found in found] == ["attention_lab.attention.scores.Dot", "attention_lab.viz"]


def test_a_circle_is_seen() -> None:
    assert set(cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}})) == {"a", "b", "c"}
    assert cycle({"a": {"b"}, "b": {"c"}, "c": set()}) == []
