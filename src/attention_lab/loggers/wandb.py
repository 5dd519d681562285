"""Log a run to Weights & Biases."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

from PIL.Image import Image
from pytorch_lightning.loggers import WandbLogger
from pytorch_lightning.loggers.logger import rank_zero_experiment  # type: ignore[attr-defined]
from pytorch_lightning.utilities import rank_zero_only

from attention_lab.errors import LabError, first_line
from attention_lab.files.paths import is_inside, short_path
from attention_lab.files.regular_files import exists, lexists
from attention_lab.files.writing import remove
from attention_lab.loggers.base import RunLogger, read_run_id, run_title, save_run_id

RUN_ID = "wandb_run_id.txt"
"""The file in the run's folder with the id of its record."""


class WandbRunLogger(WandbLogger, RunLogger):
    """Log a run to Weights & Biases, with hyperparameters, heatmaps and final metrics.

    Its files are in `folder/wandb`. Without a network set `offline`, or the environment variable
    `WANDB_MODE=offline`, and upload later with `wandb sync folder/wandb/offline-run-*`. The git commit is
    recorded if the folder is in the same repository as the program.

    Args:
        folder: the run's folder.
        project: the project that the run belongs to.
        entity: user or team; None: the default of your account.
        group: runs that belong together, such as those of a sweep.
        offline: write files only.
        tags: words to find the run by.
        notes: a description.

    Raises:
        LabError: wandb is not installed, would take its settings from the run's folder, or would write to
            `folder/.wandb`.
    """

    def __init__(
        self,
        folder: str,
        project: str = "attention-lab",
        entity: str | None = None,
        group: str | None = None,
        offline: bool = False,
        tags: Sequence[str] = (),
        notes: str | None = None,
    ) -> None:
        _check_settings(folder)
        _check_place(Path(folder))
        offline = offline or os.environ.get("WANDB_MODE") == "offline"
        # Git runs commands that a repository names: one in the run's folder, or around it, may be another's.
        without_git = {} if _repository(folder) == _repository(__file__) else {"disable_git": True}
        try:
            super().__init__(
                name=run_title(Path(folder)),
                save_dir=folder,
                project=project,
                entity=entity,
                group=group,
                mode="offline" if offline else None,
                tags=list(tags),
                notes=notes,
                # The console belongs to the program: wandb neither captures it nor writes its own summary.
                settings={"console": "off", "quiet": True, "silent": offline, **without_git},
            )
        except ModuleNotFoundError:
            raise LabError("logger=wandb needs additional packages: pip install -e '.[loggers]'") from None
        self._wandb_init.pop("anonymous", None)  # wandb no longer accepts it
        self.folder = Path(folder)

    @property
    @rank_zero_experiment
    def experiment(self) -> Any:
        """The `wandb.Run`; started on first use.

        Raises:
            LabError: it cannot be started, for example because the user is not logged in.
        """
        if self._experiment is not None:
            return self._experiment
        import wandb

        try:
            run = super().experiment
        except wandb.Error as error:
            raise LabError(
                f"logger=wandb: {first_line(error).rstrip('.')}; to log without a server, add "
                "logger.wandb.offline=true"
            ) from None
        save_run_id(self.folder / RUN_ID, str(run.id))
        self._remove_links_out()
        return run

    @rank_zero_only
    def log_settings(self, settings: Mapping[str, Any], metrics: Sequence[str], first: Sequence[str]) -> None:
        """Log the hyperparameters."""
        self.log_hyperparams(dict(settings))

    @rank_zero_only
    def log_picture(self, tag: str, picture: Image, step: int) -> None:
        """Log a picture."""
        self.log_image(tag, [picture], step)

    @rank_zero_only
    def log_results(self, metrics: Mapping[str, float], step: int) -> None:
        """Put the final metrics into the run's summary, the columns of W&B's table of runs."""
        self.experiment.summary.update(dict(metrics))

    def how_to_view(self) -> tuple[str, str] | None:
        """The page of the run, or the command that uploads it; None with `WANDB_MODE=disabled`."""
        if self.experiment.offline:
            return "W&B", f"wandb sync {quote(short_path(self.folder))}/wandb/offline-run-*"
        return ("W&B", self.experiment.url) if self.experiment.url else None

    def continue_run(self) -> None:
        """Append to the record of the interrupted run."""
        self._id = self._wandb_init["id"] = read_run_id(self.folder / RUN_ID, "[a-z0-9]{8}")

    @rank_zero_only
    def finalize(self, status: str) -> None:
        """End the record of a failed run; otherwise it stays open for the test."""
        if status == "failed":
            self._finish(1)

    @rank_zero_only
    def close(self) -> None:
        """End the record."""
        self._finish(0)

    def _remove_links_out(self) -> None:
        """Remove wandb's link to a log file elsewhere: a folder with such a link cannot be resumed."""
        for link in self.folder.glob("wandb/*/logs/*.log"):
            if link.is_symlink():
                remove(link)

    def _finish(self, status: int) -> None:
        if self._experiment is not None:
            self._experiment.finish(exit_code=status)
            self._remove_links_out()
            self._experiment = None  # the next run of a sweep in this process starts its own record


def _check_settings(folder: str) -> None:
    """Reject settings in the run's folder, perhaps from others: they name the server that gets the key.

    Wandb reads them in the working directory, which may be that folder.
    """
    for settings in (Path("wandb", "settings"), Path(".wandb", "settings")):
        if exists(settings) and is_inside(settings, folder):
            raise LabError(
                f"{settings} in the run's folder may name another server for wandb: remove it, or start in "
                "another folder"
            )


def _check_place(folder: Path) -> None:
    """Reject a `.wandb` in the run's folder, perhaps a link from others: wandb prefers it to `wandb`."""
    if lexists(folder / ".wandb"):
        raise LabError(f"{folder / '.wandb'}: wandb would write there, not to {folder / 'wandb'}: remove it")


def _repository(path: str) -> Path | None:
    """The git repository that a file or folder is in, found without git; None if there is none."""
    real = Path(os.path.realpath(path))
    # Git also takes a folder for a repository that has no .git, but is one itself, with a file HEAD.
    inside = (one for one in (real, *real.parents) if lexists(one / ".git") or lexists(one / "HEAD"))
    return next(inside, None)
