"""Checkpoints and run folders with every path, size and count in them set to something hostile."""

import contextlib
import shutil
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import torch
import yaml

TINY = ["pictures=0", "callbacks.attention_maps.every=100"]
BASES = {
    "nw": [*TINY, "model=nw", "data.train_size=10", "callbacks=ema", "logger=csv"],
    "seq2seq": [
        *(*TINY, "model=seq2seq", "data=reverse", "data.train_size=20", "data.validation_size=4"),
        *("data.test_size=4", "data.max_length=4", "data.batch_size=5", "model.embedding_size=4"),
        *("model.hidden_size=4", "callbacks=early_stopping"),
    ],
}
Path_ = tuple[Any, ...]


class Case(NamedTuple):
    """An altered copy of a base's folder, and the command line that uses it."""

    name: str
    base: str
    alter: Callable[[Path], None]
    arguments: list[str]


def walk(content: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    """Every field within nested values, of long lists the first."""
    if isinstance(content, dict) and content:
        for key, value in content.items():
            yield from walk(value, (*path, key))
    elif isinstance(content, list | tuple) and content:
        for place, value in enumerate(content[:1] if len(content) > 8 else content):
            yield from walk(value, (*path, place))
    else:
        yield path, content


def put(content: Any, path: Path_, value: Any) -> Any:
    """Nested values with one field replaced."""
    if not path:
        return value
    if isinstance(content, dict):
        return {key: put(one, path[1:], value) if key == path[0] else one for key, one in content.items()}
    changed = [put(one, path[1:], value) if place == path[0] else one for place, one in enumerate(content)]
    return type(content)(changed)


def hostile(path: Path_, value: Any, canary: Path) -> list[Any]:
    """Harmful values for a field."""
    if isinstance(value, torch.Tensor):
        return [torch.zeros(1).expand(10**12), torch.full((3, 1), float("nan")), 10**9]
    if isinstance(value, bool) or value is None:
        return [10**9, "x"]
    if isinstance(value, int):
        return [10**9, -1, 2**62, True, 10**12]
    if isinstance(value, float):
        return [float("nan"), 1e300, -1e300]
    if isinstance(value, str) and str(path[-1]).endswith("_target_"):
        return ["os.mkdir", "attention_lab.tasks.Task", "attention_lab.data.reading.files.Path", "torch.load"]
    if isinstance(value, str) and value.startswith("/"):
        return [
            str(canary),
            f"local://{canary}",
            f"/QQ/../../../{canary.name}",
            f"{value}/../../../{canary.name}",
        ]
    return [f"../../{canary.name}", str(canary), "x" * 100_000]


def _alter_checkpoint(path: Path_, value: Any) -> Callable[[Path], None]:
    def alter(run: Path) -> None:
        for file in (run / "checkpoints").glob("*.ckpt"):
            content = torch.load(file, weights_only=True)
            with contextlib.suppress(KeyError, IndexError, TypeError):
                torch.save(put(content, path, value), file)

    return alter


def _alter_yaml(name: str, path: Path_, value: Any) -> Callable[[Path], None]:
    def alter(run: Path) -> None:
        file = run / name
        file.write_text(yaml.safe_dump(put(yaml.safe_load(file.read_text()), path, value)))

    return alter


def _alter_links(name: str, canary: Path, target: str) -> Callable[[Path], None]:
    def alter(run: Path) -> None:
        place = run / name
        if place.is_dir():
            shutil.rmtree(place)
        place.unlink(missing_ok=True)
        place.symlink_to(canary / target)

    return alter


def cases(root: Path) -> list[Case]:
    """All of them, some 400, always in the same order."""
    canary = root / "canary"
    return [*_of_checkpoints(root, canary), *_of_folders(root, canary), *_of_links(canary)]


def _of_checkpoints(root: Path, canary: Path) -> Iterator[Case]:
    turn, value_of = cycle(range(60)), cycle(range(60))
    for base, options in BASES.items():
        checkpoint = "run/checkpoints/last.ckpt"
        go_on = [*options, "trainer.max_epochs=3", f"ckpt_path={checkpoint}", "hydra.run.dir=out"]
        commands = {
            "ckpt_path": go_on,
            "resume": ["resume=run"],
            "test": ["stage=test", f"ckpt_path={checkpoint}", "pictures=0", "hydra.run.dir=out"],
            "predict": ["stage=predict", f"ckpt_path={checkpoint}", "inputs=['1']", "hydra.run.dir=out"],
        }
        content = torch.load(root / base / "checkpoints" / "last.ckpt", weights_only=True)
        for path, value in walk(content):
            if base == "seq2seq" and path[0] == "loops":
                continue  # the same as the other's
            bad = hostile(path, value, canary)
            place = isinstance(value, str) and value.startswith("/")
            training = path[0] not in ("attention_lab", "state_dict")
            uses = ("ckpt_path", "resume") if training else ("test", "predict", "resume", "ckpt_path")
            for one in bad if place else [bad[next(value_of) % len(bad)]]:
                for use in uses if place else [uses[next(turn) % len(uses)]]:
                    name = f"{base} {use} {'.'.join(map(str, path))[:120]}={str(one)[:40]}"
                    yield Case(name, base, _alter_checkpoint(path, one), commands[use])


def _of_folders(root: Path, canary: Path) -> Iterator[Case]:
    turn, value_of = cycle(range(60)), cycle(range(60))
    commands = {
        "resume": ["resume=run"],
        "report": ["stage=report", "run=run", "hydra.run.dir=out"],
        "leaderboard": ["stage=leaderboard", "run=run", "hydra.run.dir=out"],
    }
    for base in BASES:
        for file in ("config.yaml", "metrics.json", ".hydra/hydra.yaml", ".hydra/overrides.yaml"):
            content = yaml.safe_load((root / base / file).read_text())
            for path, value in walk(content):
                choice = path[:3] == ("hydra", "runtime", "choices")
                if file.startswith(".hydra/hydra") and not (choice or path[-1] in ("dir", "output_dir")):
                    continue
                bad = hostile(path, value, canary)
                place = file == "config.yaml" and isinstance(value, str) and value.startswith("/")
                for one in bad if place else [bad[next(value_of) % len(bad)]]:
                    uses = (
                        ["resume"]
                        if place
                        else [("resume", "resume", "report", "leaderboard")[next(turn) % 4]]
                    )
                    for use in uses:
                        name = f"{base} {use} {file}:{'.'.join(map(str, path))}={str(one)[:40]}"
                        yield Case(name, base, _alter_yaml(file, path, one), commands[use])
        for option in (
            *(f"callbacks.checkpoint.dirpath={canary}", f"hydra.run.dir={canary}", "++stage=predict"),
            *("+optimizer@hydra.launcher=adam", f"++stage=leaderboard run={canary}"),
            *(f"logger.csv.save_dir={canary}", f"hydra.searchpath=[{canary}]", "trainer._target_=os.mkdir"),
        ):
            alter = _alter_yaml(".hydra/overrides.yaml", (), [*option.split(" ")])
            yield Case(f"{base} resume overrides.yaml:{option[:60]}", base, alter, ["resume=run"])


def _of_links(canary: Path) -> Iterator[Case]:
    for base in BASES:
        for name, target in [
            *(
                ("checkpoints", ""),
                ("tensorboard", ""),
                ("attention", ""),
                ("csv", ""),
                ("train.log", "file"),
            ),
            *(("config.yaml", "config.yaml"), ("checkpoints/last.ckpt", "kept.ckpt"), (".hydra", "")),
            *(("checkpoints/best.ckpt", "kept.ckpt"), ("metrics.json", "file"), ("error.txt", "file")),
        ]:
            for use in (["resume=run"], ["stage=report", "run=run"], ["stage=leaderboard", "run=run"]):
                arguments = use if len(use) == 1 else [*use, "hydra.run.dir=out"]
                what = f"{base} {use[0]} link {name}"
                yield Case(what, base, _alter_links(name, canary, target), arguments)
