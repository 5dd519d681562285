"""Models that come with the package, or are loaded from a folder."""

from collections.abc import Sequence
from pathlib import Path

from attention_lab.console_text import LONGEST_MESSAGE, printable
from attention_lab.errors import LabError
from attention_lab.files.regular_files import exists, is_folder
from attention_lab.files.run_files import CHECKPOINTS
from attention_lab.inference.safetensors_files import SUFFIX, read
from attention_lab.inference.trained_model import TrainedModel
from attention_lab.tasks.sequence_generation import SequencePredictor

PACKAGED = Path(__file__).with_name("packaged")
"""A folder for each model of the package: weights, configuration, and a README with data and error rates."""
WEIGHTS = f"model{SUFFIX}"


def pretrained(model: str | Path, allow: Sequence[str] = ()) -> TrainedModel[SequencePredictor]:
    """Load a model that comes with the package, or one that `TrainedModel.export` wrote; needs no Lightning.

    For example:

        model = attention_lab.pretrained("g2p-english")
        model.predict(["hello"])  # ["HH AH L OW"]

    Args:
        model: its name, `g2p-english`; or a folder with `model.safetensors` and `model.json`; or the path of
            a weights file with any name, `x.safetensors`, with `x.json` next to it.
        allow: packages besides this one whose classes the configuration may name, such as `["my_package"]`.

    Raises:
        LabError: no such model exists, or its files cannot be read; see `safetensors_files.read`.
    """
    path = _weights_path(model)
    try:
        task, score = read(path, allow)
    except LabError as error:  # its message may repeat what is in the files
        raise LabError(printable(str(error), LONGEST_MESSAGE)) from None
    return TrainedModel(task, [path], score)


def _weights_path(model: str | Path) -> Path:
    packaged = sorted(path.parent.name for path in PACKAGED.glob(f"*/{WEIGHTS}"))
    if str(model) in packaged:
        return PACKAGED / str(model) / WEIGHTS
    path = Path(str(model))
    if is_folder(path) and not path.name.endswith(SUFFIX):
        path = path / WEIGHTS
    if path.suffix != SUFFIX or not exists(path):
        names = f"a model of the package ({', '.join(packaged)})" if packaged else "a model of the package"
        trained = path.suffix == ".ckpt" or is_folder(Path(str(model), CHECKPOINTS))
        hint = "; for a checkpoint or a run's folder, use attention_lab.load" if trained else ""
        raise LabError(f"{model} is neither {names} nor a folder with {WEIGHTS}{hint}")
    return path
