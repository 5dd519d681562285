"""Combine the models of several checkpoints in one ensemble, if they have the same symbols and labels."""

from collections.abc import Sequence
from itertools import compress
from pathlib import Path
from typing import Any, TypeVar, cast

from attention_lab.data.reading.codecs import Codec, TransductionCodec
from attention_lab.errors import LabError
from attention_lab.models import ClassifierEnsemble, Ensemble, TwoWayEnsemble
from attention_lab.models.transduction import TransductionModel
from attention_lab.tasks import Task, Transduction
from attention_lab.tasks.classification import LabelPrediction
from attention_lab.tasks.model_checks import first_not_finite

TaskT = TypeVar("TaskT", bound=Task)


def combined(paths: Sequence[Path], tasks: Sequence[Task]) -> Task:
    """Combine the models of several checkpoints in the task of the first one.

    Its options apply to all, except that CTC rescoring is on if any task uses it: the first model may have no
    CTC scores. With models of both directions, the first one that generates from left to right is used; see
    `TwoWayEnsemble`.
    """
    if isinstance(tasks[0], LabelPrediction):
        classifiers = _members(paths, tasks, LabelPrediction)  # type: ignore[type-abstract]
        classifiers[0].model = ClassifierEnsemble([task.model for task in classifiers])
        return classifiers[0]
    backward = [_is_backward(task.codec) for task in tasks]
    index = backward.index(False) if False in backward else 0
    members = _members(paths, tasks, Transduction, index)
    first = members[index]
    first.ctc_rescoring = max(task.ctc_rescoring for task in members)
    models = [cast(TransductionModel, task.model) for task in members]
    if any(backward) and not all(backward):
        right_to_left = list(compress(models, backward))
        left_to_right = [model for model in models if model not in right_to_left]
        first.model = TwoWayEnsemble(left_to_right, right_to_left, _tags(first.codec))
    else:
        first.model = Ensemble(models)
    return first


def _members(paths: Sequence[Path], tasks: Sequence[Task], kind: type[TaskT], first: int = 0) -> list[TaskT]:
    """The tasks. Raises LabError unless all are of this kind and have the same symbols as `tasks[first]`."""
    members = []
    for path, task in zip(paths, tasks, strict=True):
        if not isinstance(task, kind):
            wanted = "classifier" if kind is LabelPrediction else "sequence-to-sequence model"
            raise LabError(
                f"ckpt_path: {path} has no {wanted}: several sequence-to-sequence models can be combined, or "
                "several classifiers"
            )
        if first_not_finite(task.model):
            raise LabError(f"ckpt_path: {path} has weights that are NaN or infinite; leave it out")
        if _symbols(task.codec) != _symbols(tasks[first].codec):
            parts, same = "vocabularies", "symbols"
            if kind is LabelPrediction:
                parts, same = "labels, symbols or scales of numbers", "labels and inputs"
            raise LabError(
                f"ckpt_path: {paths[first]} and {path} have different {parts}: "
                f"only models with the same {same} can be combined"
            )
        members.append(task)
    return members


def _is_backward(codec: Codec) -> bool:
    return isinstance(codec, TransductionCodec) and codec.target.notation.right_to_left


def _symbols(codec: Codec) -> dict[str, Any]:
    """The state of a codec, ignoring its writing direction."""
    return codec.left_to_right.state() if isinstance(codec, TransductionCodec) else codec.state()


def _tags(codec: Codec) -> list[int]:
    """The ids of the source symbols that are tags."""
    assert isinstance(codec, TransductionCodec)
    symbols = codec.source.vocabulary.symbols
    return codec.source.vocabulary.ids(filter(codec.source.notation.keeps_place, symbols))
