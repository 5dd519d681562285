"""Lightning without scipy and matplotlib, which nobody else has to do without."""

import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

import pytest

from attention_lab.lightning_import import _hidden, import_lightning


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
def test_lightning_comes_without_what_it_does_not_need() -> None:
    script = (
        "import sys\n"
        "from attention_lab.lightning_import import import_lightning\n"
        "import_lightning()\n"
        "assert 'pytorch_lightning' in sys.modules and not {'scipy', 'matplotlib'} & set(sys.modules)\n"
        "import scipy, matplotlib\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
