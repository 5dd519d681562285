"""Lightning is imported without scipy, matplotlib and transformers, which others can still import."""

import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from attention_lab.lightning_import import _hidden, import_lightning, names_other_packages

CONF = Path(__file__).parents[1] / "conf"


def test_what_is_hidden_looks_as_if_it_were_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "scipy"]:
        monkeypatch.delitem(sys.modules, name)
    finders = list(sys.meta_path)
    with _hidden():
        with pytest.raises(ModuleNotFoundError, match="scipy"):
            find_spec("scipy")
        with pytest.raises(PackageNotFoundError, match="scipy"):
            version("scipy")
        assert find_spec("numpy") is not None
        assert version("numpy")
    assert sys.meta_path == finders
    assert find_spec("scipy") is not None
    assert version("scipy")


@pytest.mark.parametrize("package", ["torchmetrics", "scipy", "matplotlib"])
def test_nothing_is_hidden_where_it_is_imported_already(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("torchmetrics", "scipy", "matplotlib"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, package, object())
    monkeypatch.delitem(sys.modules, "pytorch_lightning", raising=False)
    monkeypatch.setattr(sys, "meta_path", [])  # importing Lightning anew would fail
    import_lightning()
    assert "pytorch_lightning" not in sys.modules


@pytest.mark.slow  # imports Lightning in a process of its own
def test_lightning_comes_without_what_it_does_not_need(tmp_path: Path) -> None:
    """Not even where packages are installed that import scipy, as transformers 5.17 does."""
    for name in ("transformers", "torchvision", "bert_score", "torch_fidelity"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("import scipy\n")
        (tmp_path / f"{name}-9.0.dist-info").mkdir()
        (tmp_path / f"{name}-9.0.dist-info" / "METADATA").write_text(f"Name: {name}\nVersion: 9.0\n")
    script = (
        "import sys\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "from attention_lab.lightning_import import _OPTIONAL, import_lightning\n"
        "import_lightning()\n"
        "assert 'pytorch_lightning' in sys.modules and not _OPTIONAL & set(sys.modules)\n"
        "import scipy, matplotlib, transformers\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_lightning_is_imported_even_if_it_needs_what_is_hidden(tmp_path: Path) -> None:
    """As it did with lightning-utilities 0.11, which looked for packages in another way."""
    package = tmp_path / "pytorch_lightning"
    package.mkdir()
    (package / "__init__.py").write_text("import pytorch_lightning.utilities\nimport scipy\n")
    (package / "utilities.py").write_text("")
    script = (
        "import sys\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "sys.modules['lightning_fabric'] = sys\n"
        "from attention_lab.lightning_import import import_lightning\n"
        "import_lightning()\n"
        "import pytorch_lightning\n"
        "assert 'scipy' in sys.modules and pytorch_lightning.utilities\n"
        "assert sys.modules['lightning_fabric'] is sys, 'it was imported before'\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_no_configuration_of_this_package_needs_what_is_hidden() -> None:
    files = sorted(CONF.glob("*/*.yaml"))
    needing = [str(file) for file in files if names_other_packages(yaml.safe_load(file.read_text()))]
    assert files and not needing


@pytest.mark.parametrize(
    "config",
    [
        {"model": {"_target_": "my_package.Model"}},
        {"callbacks": [{"a": {"_target_": "my_package.metrics.Mine"}}]},
    ],
)
def test_a_class_of_the_user_may_need_all(config: Any) -> None:
    assert names_other_packages(config)
