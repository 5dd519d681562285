"""A model in two files: its weights as `x.safetensors`, and its configuration as `x.json`.

Neither file can run code. Files from others are checked before anything is built from them: the configuration
like that of a checkpoint, and the shapes of the weights against the model that the configuration describes.
"""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attention_lab.attention import Mechanism
from attention_lab.config_parts import MECHANISM
from attention_lab.console_text import with_short_words
from attention_lab.data.reading.codecs import ImageCodec, TransductionCodec, codec_from_state
from attention_lab.errors import BAD_VALUE_ERRORS, LabError, first_line, named_line
from attention_lab.files.regular_files import read_regular
from attention_lab.files.writing import write_together
from attention_lab.models.decoding.beam_search import Decodable
from attention_lab.models.ensemble import Ensemble
from attention_lab.sizes import KIND_OF_DATA
from attention_lab.tasks.sequence_generation import SequenceGeneration, SequencePredictor
from attention_lab.untrusted.configuration import check_targets, check_values, checked_packages, class_of
from attention_lab.untrusted.model_size import limit_size, size_limits
from attention_lab.untrusted.plain_files import MAX_BYTES, read_json
from attention_lab.untrusted.run_parts import check_subpackage

SUFFIX = ".safetensors"
VERSION = 1
"""Version of the configuration."""
LARGEST_FILE = 1 << 30
"""Largest file of weights, in bytes."""
_LENGTH = 8  # bytes of the header's length, which is the first thing in the file
_LONGEST_SCORE = 200
_DECODING = ("beam_size", "length_penalty", "ctc_rescoring")
_FLOATS = (torch.float16, torch.bfloat16, torch.float32)
_PARTS = ("model", *MECHANISM)


def save(task: object, path: Path, score: str = "") -> list[Path]:
    """Write the weights of a trained model, in float16, and its configuration.

    Args:
        task: the trained model and its codec.
        path: the file for the weights, `x.safetensors`; the configuration is written to `x.json` next to it.
        score: a description of the model's quality for the configuration.

    Returns:
        Both files.

    Raises:
        LabError: it is not a single sequence-to-sequence model, was not built from a configuration, or
            has weights that are too large for float16, NaN or infinite.
    """
    if not isinstance(task, SequenceGeneration):
        raise LabError(
            f"export={path.name} is only for sequence-to-sequence models: "
            "choose export=model.pt2 or model.onnx"
        )
    if isinstance(task.model, Ensemble):
        raise LabError("an ensemble cannot be exported: export each of its checkpoints")
    config = task.recipe.get("config")
    if config is None:
        raise LabError(f"export={path.name}: this model was not built from a configuration")
    about = {
        "version": VERSION,
        **{part: config[part] for part in _PARTS},
        "decoding": {name: getattr(task, name) for name in _DECODING},
        "codec": task.codec.state(),
        "score": score,
    }
    weights = {name: _halved(name, value, path) for name, value in task.model.state_dict().items()}
    json_path = path.with_suffix(".json")
    description = json.dumps(about, indent=2, ensure_ascii=False) + "\n"
    write_together({path: safetensors.torch.save(weights), json_path: description})
    return [path, json_path]


def _halved(name: str, value: Tensor, path: Path) -> Tensor:
    """A weight in float16, in its own memory; integers stay as they are."""
    kept = value.detach().cpu().to(torch.float16 if value.is_floating_point() else value.dtype, copy=True)
    if value.is_floating_point() and not bool(kept.isfinite().all()):
        if not bool(value.isfinite().all()):
            raise LabError(f"export={path.name}: {name} has weights that are NaN or infinite")
        raise LabError(
            f"export={path.name}: {name} has weights that are too large for float16: choose export=model.pt2"
        )
    return kept.contiguous()


def read(path: Path, allow: Sequence[str] = ()) -> tuple[SequencePredictor, str]:
    """The model in `path` and the `x.json` next to it, and its score; see `save`.

    Args:
        path: the file of the weights.
        allow: packages besides this one whose classes the configuration may name.

    Raises:
        LabError: a file is missing, damaged or too large, or names code that is not allowed, or the weights
            do not fit the model.
    """
    weights, json_path = _read_weights(path), path.with_suffix(".json")
    config = _checked(read_json(json_path, str(json_path)), str(json_path), allow)
    try:
        codec = codec_from_state(config["codec"])
        if not isinstance(codec, TransductionCodec | ImageCodec):
            raise LabError("its codec is not that of a sequence-to-sequence model")
        with (
            limit_size(*size_limits(weights.values())),
            torch.device("meta"),
            _WithoutInitialValues(memory=False),
        ):
            _check_weights(_model(config, codec).state_dict(), weights)
        with _WithoutInitialValues(memory=True):
            model = _model(config, codec)
        model.load_state_dict(weights)
        task = SequencePredictor(model, codec, **_decoding(config["decoding"]), recipe={"config": config})
    except LabError as error:
        raise LabError(f"{json_path}: {with_short_words(str(error))}") from None
    except (*BAD_VALUE_ERRORS, MemoryError) as error:
        reason = with_short_words(named_line(error))
        raise LabError(f"{json_path} cannot be read: {reason}") from None
    return task, str(config["score"])[:_LONGEST_SCORE]


def _read_weights(path: Path) -> dict[str, Tensor]:
    try:
        content = read_regular(path, LARGEST_FILE)
    except OSError as error:
        raise LabError(f"{path}: {error.strerror}") from None
    # Parsing takes 25 times a header's size; one that is longer than its file is reported below.
    if MAX_BYTES < int.from_bytes(content[:_LENGTH], "little") < len(content):
        raise LabError(f"{path}: its header is larger than {MAX_BYTES >> 20} MiB")
    try:
        return safetensors.torch.load(content)
    except (safetensors.SafetensorError, *BAD_VALUE_ERRORS) as error:
        raise LabError(f"{path} is damaged, or not a safetensors file: {first_line(error)}") from None


def _checked(config: Any, name: str, allow: Sequence[str]) -> dict[str, Any]:
    """The content of `x.json`, after checking that it can only describe a model."""
    if not isinstance(config, dict) or config.get("version") != VERSION:
        raise LabError(f"{name} does not describe a model of attention-lab, version {VERSION}")
    if missing := {*_PARTS, "decoding", "codec", "score"} - config.keys():
        raise LabError(f"{name}: {min(missing)} is missing")
    parts = {part: config[part] for part in _PARTS}
    check_targets(parts, name, checked_packages(allow))
    for part in _PARTS:
        check_subpackage(parts[part], part, name)
    check_values(parts, name)
    return config


def _decoding(options: Mapping[str, Any]) -> dict[str, Any]:
    """The decoding options. Raises LabError if they are not numbers."""
    beams, penalty = options["beam_size"], options["length_penalty"]
    if type(beams) is not int or type(penalty) not in (int, float):
        raise LabError("decoding needs a beam_size that is a whole number, and a length_penalty such as 1.0")
    rescoring = options.get("ctc_rescoring", 0.0)  # earlier files lack it
    if type(rescoring) not in (int, float):
        raise LabError("decoding needs a ctc_rescoring that is a number, such as 0.2")
    return {"beam_size": beams, "length_penalty": penalty, "ctc_rescoring": rescoring}


def _model(config: Mapping[str, Any], codec: TransductionCodec | ImageCodec) -> Any:
    """The model with initial weights, from a checked configuration."""
    mechanism = Mechanism(*(_built(config[part]) for part in MECHANISM))
    options = {name: value for name, value in config["model"].items() if name != KIND_OF_DATA["model"]}
    model = _built({**options, "_partial_": True})(mechanism, codec.sizes)
    if not (isinstance(model, nn.Module) and isinstance(model, Decodable)):
        raise LabError("its model is not a sequence-to-sequence model")
    return model


def _built(node: Any) -> Any:
    """Build what a checked part of a configuration describes, as Hydra would."""
    if isinstance(node, list):
        return [_built(item) for item in node]
    if not isinstance(node, dict):
        return node
    options = {name: _built(value) for name, value in node.items() if name not in ("_target_", "_partial_")}
    if "_target_" not in node:
        return options
    make = class_of(node["_target_"])
    return partial(make, **options) if node.get("_partial_") else make(**options)


class _WithoutInitialValues(TorchFunctionMode):
    """Builds models without initialising weights that are about to be replaced by those of a file.

    This leaves the program's random numbers alone. On the meta device, tensors are not scaled by numbers
    either, because any arithmetic there takes a part of PyTorch that needs more than a second to import.
    """

    def __init__(self, memory: bool) -> None:
        super().__init__()
        scaling = () if memory else ("mul", "__mul__", "mul_", "__imul__")
        self.skipped = {"normal_", "uniform_", *scaling}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function of PyTorch, unless it only sets or scales initial values."""
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if getattr(func, "__module__", None) == nn.init.__name__:
            return args[0] if args else kwargs["tensor"]
        if name == "linalg_qr":  # of orthogonal initial values: both factors with the right shapes
            return args[0], args[0][..., : args[0].shape[-1], :]
        if name == "sign":  # of the same values, in PyTorch 2.11
            return 1
        if name in self.skipped and not any(isinstance(other, Tensor) for other in args[1:]):
            return args[0]
        return (torch.empty if name in ("rand", "randn") else func)(*args, **kwargs)


def _check_weights(expected: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> None:
    """Raise LabError unless the weights are complete and finite, with the model's names and shapes."""
    if difference := sorted(expected.keys() ^ weights.keys()):
        raise LabError(f"the weights do not fit the model, which differs in {difference[0][:_LONGEST_SCORE]}")
    for name, tensor in weights.items():
        kinds = _FLOATS if expected[name].is_floating_point() else (expected[name].dtype,)
        if tensor.shape != expected[name].shape or tensor.dtype not in kinds:
            raise LabError(
                f"the weights do not fit the model: {name} is {tensor.dtype} {list(tensor.shape)}, "
                f"not {list(expected[name].shape)}"
            )
        if not bool(tensor.isfinite().all()):
            raise LabError(f"the weights of {name} are not finite numbers")
