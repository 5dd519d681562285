"""stage=predict: the outputs of a trained model for given inputs, and their heatmaps."""

import sys

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from attention_lab.console_text import console_line, console_message, counted, without_controls
from attention_lab.data.reading.codecs import LanguageCodec
from attention_lab.errors import LabError
from attention_lab.experiment.given_checkpoint import load_trained_model
from attention_lab.experiment.inputs import Places, read_inputs, with_tabs
from attention_lab.experiment.stages.shared import prepare
from attention_lab.experiment.trainer.options import checked_trainer_options
from attention_lab.files.paths import short_path
from attention_lab.files.run_files import HEATMAPS, PREDICTIONS
from attention_lab.files.writing import write_atomically
from attention_lab.inference.trained_model import TrainedModel
from attention_lab.tasks import Task, Transduction
from attention_lab.tasks.classification import LabelPrediction
from attention_lab.tasks.pictures import save_pictures
from attention_lab.text_tables import ESCAPES


def predict(config: DictConfig) -> None:
    """Print the output for each of `inputs`; write `predictions.tsv` and heatmaps of the first `pictures`.

    An empty input has an empty output, except for a language model, which continues it.
    """
    plain, folder = prepare(config)
    checked_trainer_options(plain["trainer"])  # although none is needed
    trained = load_trained_model(plain).trained
    inputs, places = plain["inputs"], Places.of(plain["inputs"])
    lines = read_inputs(inputs, HydraConfig.get().overrides.task)
    if trained.reads_columns and isinstance(inputs, list):
        lines = with_tabs(lines)
    readable = readable_lines(trained, lines, places)
    with places.blame_lines(list(readable)):
        table = prediction_table(trained, lines, readable)
    print(table, end="", flush=True)
    write_atomically(folder / PREDICTIONS, table)
    drawn = list(readable.values())[: plain["pictures"]]
    paths = save_pictures(trained.observe(drawn), folder / HEATMAPS, plain["pictures_format"])
    if paths:
        some = f"{len(drawn)} of " if len(drawn) < len(readable) else ""
        inputs_drawn = f"{some}{counted(len(readable), 'input')}"
        print(console_line(f"Heatmaps of {inputs_drawn}: {short_path(paths[0].parent)}"), file=sys.stderr)


def readable_lines(trained: TrainedModel[Task], lines: list[str], places: Places) -> dict[int, str]:
    """The inputs that can be predicted, by line number; warns about empty ones and about unseen symbols.

    Raises:
        LabError: there are none, or one of them cannot be read.
    """
    continued = isinstance(trained.codec, LanguageCodec)
    readable = {number: line for number, line in enumerate(lines, start=1) if continued or line.strip()}
    if not readable:
        raise LabError(f"{places.source or 'inputs'}: all inputs are empty")
    empty = [number for number in range(1, len(lines) + 1) if number not in readable]
    with places.blame_lines(range(1, len(lines) + 1)):
        unseen = trained.unseen_symbols(lines, *places)
    for warning in filter(None, (places.empty_warning(empty, len(lines)) if empty else "", unseen)):
        print(console_message("Warning", warning), file=sys.stderr)
    return readable


def prediction_table(trained: TrainedModel[Task], lines: list[str], readable: dict[int, str]) -> str:
    """`input<TAB>output`; with `task.n_best`, `input<TAB>rank<TAB>score<TAB>output` for each output.

    Lines that are not in `readable` have empty cells. No text in the table controls a terminal.
    """
    n = trained.task.n_best if isinstance(trained.task, Transduction | LabelPrediction) else 1
    texts = list(readable.values())
    if n == 1:
        found = ([output.translate(ESCAPES)] for output in trained.predict(texts))
    else:
        found = (
            [
                f"{rank}\t{score:.4f}\t{output.translate(ESCAPES)}"
                for rank, (output, score) in enumerate(best, 1)
            ]
            for best in trained.predict_n_best(texts, n)
        )
    cells = dict(zip(readable, found, strict=True))
    empty = [""] if n == 1 else ["\t\t"]
    rows = [
        f"{line}\t{cell}" for number, line in enumerate(lines, start=1) for cell in cells.get(number, empty)
    ]
    return "".join(f"{without_controls(row)}\n" for row in rows)
