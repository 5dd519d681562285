"""Run everything that needs a GPU, with one command, on a machine without a network.

    python -m benchmarks.gpu_session wheels            here: download packages for that machine to .wheels
    python -m benchmarks.gpu_session run --output OUT  there: run the tests marked gpu, then all benchmarks

`run` installs the wheels, if there are any, to a separate folder, and writes OUT/gpu-tests.txt,
OUT/benchmarks.txt, OUT/RESULTS.*.md and OUT/pictures.tar.gz, or adds to those of an earlier run. `run tests`
and `run linear additive` run only these parts. `run cmudict` trains experiment=g2p_cmudict
(OUT/cmudict.txt), and `run cmudict_ensemble` trains five such models at the same time. A run ends after
`--minutes`, 9.5 by default, and lists the parts that it has not finished, for the next run; all may take 40
minutes. `--device cpu --quick` tries the command without a GPU.
"""

import argparse
import os
import re
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.arguments import positive
from benchmarks.cmudict_ensemble import EXPERIMENT, TINY, accelerator, training_command
from benchmarks.topics import results_name, topics

ROOT = Path(__file__).parents[1]
WHEELS = ROOT / ".wheels"
MOST_BYTES = 60 * 2**20
"""Maximum size in bytes of the wheels."""
PYTHON = "3.12"
PLATFORMS = (
    "manylinux_2_28_x86_64",
    "manylinux_2_27_x86_64",
    "manylinux_2_17_x86_64",
    "manylinux2014_x86_64",
)
PACKAGES = (
    *("hydra-core", "omegaconf", "antlr4-python3-runtime", "cmudict", "importlib-metadata"),
    *("importlib-resources", "jaxtyping", "wadler-lindig", "beartype", "pytest", "pluggy", "iniconfig"),
    *("pytest-xdist", "execnet", "x-transformers", "einx", "frozendict", "loguru", "torch-einops-utils"),
    *("einops", "local-attention==1.11.2", "hyper-connections==0.4.11", "fla-core==0.6.0"),
    *("pykeops==2.3", "keopscore==2.3", "pybind11==3.1.0"),
)
"""Packages needed besides PyTorch and Lightning; their versions are those of constraints.txt."""
FROM_SOURCE = {"antlr4-python3-runtime", "pykeops", "keopscore"}
"""Packages published without a wheel; they are pure Python."""
ON_CPU = ("start_up", "kernel_estimators", "viewer")
"""Topics that use no GPU."""
GRACE = 10
"""Seconds that a part has to end once the time is up."""
FOR_TESTS = 2 / 3
"""Largest share of the time for the tests if there are other parts: a test might hang."""
TESTS, CMUDICT, ENSEMBLE = "tests", "cmudict", "cmudict_ensemble"
PICTURES = "pictures.tar.gz"
LOGS = {TESTS: "gpu-tests.txt", CMUDICT: "cmudict.txt", ENSEMBLE: "cmudict.txt"}
ABOUT = """
import platform, torch
there = torch.cuda.is_available()
print(f"Python {platform.python_version()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}")
print(torch.cuda.get_device_name() if there else "no GPU")
"""


def main(arguments: list[str] | None = None) -> int:
    """Run the parts that the command line names; returns the exit status."""
    options = _parser().parse_args(arguments)
    if options.command == "wheels":
        return download(options.folder)
    known = [TESTS, *(topic for topic in topics() if topic not in ON_CPU), CMUDICT, ENSEMBLE]
    chosen = options.parts or known
    if unknown := [part for part in chosen if part not in {*known, *ON_CPU}]:
        return _refuse(f"no such part: {', '.join(unknown)}; there are {', '.join(known)}")
    try:
        return run(chosen, options)
    except KeyboardInterrupt:
        return 130


def _refuse(reason: str) -> int:
    print(f"gpu_session: {reason}", file=sys.stderr)
    return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu_session",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    wheels = commands.add_parser("wheels", help="download what the other machine lacks")
    wheels.add_argument(
        "--folder", type=Path, default=WHEELS, metavar="FOLDER", help="target folder (.wheels)"
    )
    there = commands.add_parser("run", help="run the tests and the benchmarks")
    there.add_argument(
        "parts", nargs="*", metavar="part", help="tests, a topic, cmudict or cmudict_ensemble (default: all)"
    )
    there.add_argument("--output", type=Path, required=True, metavar="FOLDER", help="folder for the results")
    there.add_argument(
        "--minutes", type=float, default=9.5, metavar="M", help="minutes after which to end (default: 9.5)"
    )
    there.add_argument(
        "--device", choices=("cuda", "cpu"), default="cuda", help="cpu only to try the command"
    )
    there.add_argument("--quick", action="store_true", help="tiny sizes and few tests")
    there.add_argument(
        "--repeats",
        type=positive,
        default=5,
        metavar="N",
        help="measurements of each implementation (default: 5)",
    )
    there.add_argument(
        "--wheels",
        type=Path,
        default=WHEELS,
        metavar="FOLDER",
        help="folder of the wheels to install (default: .wheels)",
    )
    return parser


def download(folder: Path) -> int:
    """Download the wheels to a folder; returns the exit status."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [_pinned(package, _versions()) for package in PACKAGES]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    target = ["--only-binary=:all:", "--python-version", PYTHON, "--implementation", "cp"]
    target += [part for platform in PLATFORMS for part in ("--platform", platform)]
    for package in wanted:
        if package.partition("==")[0] in FROM_SOURCE:
            command = [*pip, "wheel", "--no-deps", "-w", str(folder), package]
        else:
            command = [*pip, "download", "--no-deps", *target, "-d", str(folder), package]
        if subprocess.run(command, check=False).returncode:
            return _refuse(f"{package} cannot be downloaded")
    size = sum(wheel.stat().st_size for wheel in folder.glob("*.whl"))
    print(f"{len(list(folder.glob('*.whl')))} wheels in {folder}, {size / 2**20:.1f} MiB")
    return 0 if size <= MOST_BYTES else _refuse(f"these are more than {MOST_BYTES / 2**20:.0f} MiB")


def _versions() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split("==", 1) for line in lines if re.fullmatch(r"[\w.-]+==\S+", line))


def _pinned(package: str, versions: Mapping[str, str]) -> str:
    return f"{package}=={versions[package]}" if package in versions else package


def run(parts: Sequence[str], options: argparse.Namespace) -> int:
    """Do the parts one after another until the time is up; returns the exit status."""
    options.output.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * options.minutes
    failed: list[str] = []
    late: list[str] = []
    with _environment(options.wheels) as environment, TemporaryDirectory() as name:
        about = _about(environment)
        print(about, flush=True)
        if options.device == "cuda" and "no GPU" in about:
            return _refuse("PyTorch sees no GPU here; --device cpu tries the command")
        device = "cpu" if options.device == "cpu" else about.splitlines()[2].partition(",")[0]
        results = Path(name) / results_name(device)
        _restore(Path(name), options.output)
        for part in parts:
            log, begin = options.output / LOGS.get(part, "benchmarks.txt"), time.monotonic()
            command, left = _command(part, options, results), end - begin
            if part == TESTS and len(parts) > 1:
                left *= FOR_TESTS
            try:
                status = _follow(command, log, about, environment, left)
            finally:  # at once, since this process may be killed in the next part
                _collect(Path(name), options.output)
            if status is not None:
                print(f"{part}: {time.monotonic() - begin:.0f} s", flush=True)
            (late if status is None else failed if status else []).append(part)
    for what, which in (("failed", failed), ("did not finish in time, or did not start", late)):
        if which:
            print(f"{what}: {' '.join(which)}")
    return 1 if failed or late else 0


@contextmanager
def _environment(wheels: Path) -> Iterator[dict[str, str]]:
    """An environment in which the wheels, this package and its source are importable."""
    with TemporaryDirectory() as site:
        found = sorted(map(str, wheels.glob("*.whl")))
        if found:
            pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--no-compile"]
            subprocess.run([*pip, "--no-cache-dir", "--upgrade", "--target", site, *found], check=True)
        paths = [site, str(ROOT / "src"), str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        # Do not load pytest plugins that happen to be installed there.
        own = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        yield os.environ | own | {"PYTHONUNBUFFERED": "1"}


def _about(environment: Mapping[str, str]) -> str:
    """Date, versions, device and driver."""
    command = [sys.executable, "-c", ABOUT]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    driver = "no driver"
    with suppress(OSError):
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        driver = f"driver {subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()}"
    return f"{time.strftime('%Y-%m-%d %H:%M')}\n{(said.stdout or said.stderr).strip()}, {driver}"


def _command(part: str, options: argparse.Namespace, results: Path) -> list[str]:
    if part == TESTS:
        return _tests(options)
    if part == ENSEMBLE:
        return _benchmark(options, results.parent / "ensemble", "benchmarks.cmudict_ensemble")
    if part == CMUDICT:
        return _training(options, results)
    return _benchmark(options, results, "benchmarks", part, "--repeats", str(options.repeats))


def _training(options: argparse.Namespace, results: Path) -> list[str]:
    """The command that trains on CMUdict as in the experiment, with its run beside the results."""
    chosen = (*EXPERIMENT, accelerator(options.device), *(TINY if options.quick else ()))
    return training_command(*chosen, f"hydra.run.dir={results.parent}/run")


def _tests(options: argparse.Namespace) -> list[str]:
    command = [sys.executable, "-m", "pytest", "-p", "xdist.plugin", "-p", "no:cacheprovider", "-m", "gpu"]
    # Most of the time goes into the start of processes, so that four at once take a third of it.
    workers = "-n4" if options.device == "cuda" and not options.quick else "-n0"
    command += ["tests/gpu", workers, "-rs", "--durations=10", "--tb=short", "-W", "default"]
    command += ["--device", options.device]
    return [*command, "-k", "float32 and (General or gaussian)"] if options.quick else command


def _benchmark(options: argparse.Namespace, output: Path, *program: str) -> list[str]:
    """The command that runs a module, and its arguments besides those that all of them take."""
    command = [sys.executable, "-m", *program, "--device", options.device, "--output", str(output)]
    return [*command, "--quick"] if options.quick else command


def _follow(
    command: list[str], log: Path, about: str, environment: Mapping[str, str], seconds: float
) -> int | None:
    """Run a command, and append its output to the console and a file; None if the time ran out."""
    if seconds < 1:  # `timeout 0.0` would be no limit at all
        return None
    shown = " ".join(command).replace(sys.executable, "python")
    # As by Ctrl-C, since pytest then shows the failures so far, and topics end their processes.
    limited = ["timeout", "--signal=INT", f"--kill-after={GRACE}", f"{seconds:.1f}", *command]
    told = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with (
        log.open("a", encoding="utf-8") as file,
        subprocess.Popen(limited, cwd=ROOT, env=environment, **told) as process,  # type: ignore[call-overload]
    ):
        file.write(f"{about}\n$ {shown}\n")
        try:
            for line in process.stdout:
                print(line, end="", flush=True)
                file.write(line)
                file.flush()
        except KeyboardInterrupt:
            process.terminate()  # Ctrl-C does not reach `timeout`, which has its own process group
            raise
    # -9: `timeout` kills its process group, and thus itself
    return None if process.returncode in (124, 137, -9) else process.returncode


def _restore(folder: Path, output: Path) -> None:
    """Copy the tables and pictures of earlier runs to where new ones are added to them."""
    for table in output.glob("RESULTS*.md"):
        (folder / table.name).write_bytes(table.read_bytes())
    if (pictures := output / PICTURES).exists():
        with tarfile.open(pictures) as archive:
            archive.extractall(folder, filter="data")


def _collect(folder: Path, output: Path) -> None:
    """Collect the tables, and their pictures in one archive, since few files come back from the machine."""
    for table in folder.glob("*.md"):
        (output / table.name).write_bytes(table.read_bytes())
    pictures = sorted(folder.glob("*.png"))
    if pictures:
        unfinished = output / f"{PICTURES}.part"
        with tarfile.open(unfinished, "w:gz") as archive:
            for picture in pictures:
                archive.add(picture, picture.name)
        unfinished.replace(output / PICTURES)


if __name__ == "__main__":
    sys.exit(main())
