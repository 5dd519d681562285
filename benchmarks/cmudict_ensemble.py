"""Train five models on the CMU Pronouncing Dictionary at the same time, and test them as an ensemble.

    python -m benchmarks.cmudict_ensemble --device cuda --output FOLDER

A training step of these models consists of many small kernels, so that several can share a GPU. Each trains
in a separate process and has its run in FOLDER; docs/g2p.md has results of such ensembles.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXPERIMENT = ("experiment=g2p_cmudict", "logger=none", "pictures=0")
TINY = ("data.size=256", "model.hidden_size=8", "trainer.max_epochs=1", "task.beam_size=1")
"""Options with which the experiment takes seconds, to try the command."""
_DEEPER = ("model.layers=2", "model.dropout=0.25")
_REVERSED = "data.right_to_left=true"
MODELS: Mapping[str, Sequence[str]] = {
    "experiment": (),
    "left_to_right": (*_DEEPER, "trainer.max_epochs=13", "seed=6"),
    "right_to_left": (*_DEEPER, "trainer.max_epochs=13", "seed=5", _REVERSED),
    "monotonic_left_to_right": (*_DEEPER, "trainer.max_epochs=13", "seed=4", "pooling=monotonic"),
    "monotonic_right_to_left": (*_DEEPER, "trainer.max_epochs=16", "seed=3", "pooling=monotonic", _REVERSED),
}
"""The options of each model that differ from the experiment's."""


def main(arguments: list[str] | None = None) -> int:
    """Train the models, and test them together; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cmudict_ensemble", description=__doc__)
    parser.add_argument("--output", type=Path, required=True, metavar="FOLDER", help="folder of the runs")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="device (default: cuda)")
    parser.add_argument("--quick", action="store_true", help="tiny models, to try the command")
    options = parser.parse_args(arguments)
    folder = options.output.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    shared = (*EXPERIMENT, accelerator(options.device), "trainer.precision=bf16-mixed")
    tiny = TINY if options.quick else ()
    start = time.monotonic()
    failed = train({name: (*shared, *own, *tiny) for name, own in MODELS.items()}, folder)
    print(f"{len(MODELS)} models at the same time: {time.monotonic() - start:.0f} s", flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}")
        return 1
    checkpoints = f'ckpt_path="{folder}/*/checkpoints/last.ckpt"'
    tested = ("stage=test", checkpoints, accelerator(options.device), f"hydra.run.dir={folder}/ensemble")
    return subprocess.run(training_command(*tested), cwd=ROOT, check=False).returncode


def training_command(*options: str) -> list[str]:
    """The command line of train.py with these options."""
    return [sys.executable, "train.py", *options]


def accelerator(device: str) -> str:
    """The option that trains on a device, cuda or cpu."""
    return f"trainer.accelerator={'gpu' if device == 'cuda' else 'cpu'}"


def train(runs: Mapping[str, Sequence[str]], folder: Path) -> list[str]:
    """Train models at the same time, each with its share of the CPU's cores.

    Args:
        runs: the options of each model, by name.
        folder: the folder in which each run gets a folder, and its output a file.

    Returns:
        The names of those that failed; the end of their output is printed.
    """
    from attention_lab.machine import usable_cores  # here, since `gpu_session` starts without this package

    threads = max(1, usable_cores() // len(runs))
    processes: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name, options in runs.items():
            command = training_command(*options, f"threads={threads}", f"hydra.run.dir={folder}/{name}")
            with (folder / f"{name}.txt").open("wb") as log:
                processes[name] = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
        failed = [name for name, process in processes.items() if process.wait()]
    except BaseException:
        for process in processes.values():
            process.terminate()
        raise
    for name in failed:
        print((folder / f"{name}.txt").read_text(encoding="utf-8", errors="replace")[-2000:])
    return failed


if __name__ == "__main__":
    sys.exit(main())
