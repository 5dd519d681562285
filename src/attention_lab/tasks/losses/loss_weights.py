"""Weights of the extra losses, and checks of which models support them."""

from attention_lab.attention import Exact, Hard
from attention_lab.errors import LabError
from attention_lab.models.ensemble import Ensemble
from attention_lab.models.transduction import TransductionModel
from attention_lab.tasks.losses.guidance import check_guidance
from attention_lab.tasks.losses.r_drop import check_has_dropout


def check_loss_weights(model: TransductionModel | Ensemble, **weights: float) -> None:
    """Raise LabError if the weight of an extra loss is negative or does not apply to this model."""
    for name, weight in weights.items():
        if weight < 0:
            raise LabError(f"task.{name} must be at least 0, got {weight}")
        if weight and isinstance(model.latent, Hard | Exact):
            raise LabError(
                f"task.{name} needs one output distribution for each step, but hard pooling has one for each "
                f"position: set task.{name}=0, or choose pooling=soft"
            )
    if weights["guidance"]:
        check_guidance(model)
    if weights["r_drop"]:
        check_has_dropout(model)
    if (getattr(model, "tagger", None) is not None) != bool(weights["ctc"]):
        raise LabError(
            "task.ctc and the CTC output of a model go together: "
            "set both (in seq2seq and transformer, task.ctc=0.3 model.ctc_frames=3), or neither"
        )
