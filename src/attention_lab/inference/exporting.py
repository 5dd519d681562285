"""Export a trained model with `torch.export` or to ONNX, and check that the graphs give the same results."""

import json
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from importlib.util import find_spec
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.fx.experimental.symbolic_shapes import PendingUnbackedSymbolNotFound

from attention_lab.attention.windows import LocalP
from attention_lab.data.reading.codecs import ClassificationCodec, Codec
from attention_lab.errors import LabError, named_line
from attention_lab.files.writing import check_writable, write_together
from attention_lab.models.exporting import Graph, graphs_of
from attention_lab.special_symbols import BOS, EOS, PAD, UNK

SUFFIXES = (".pt2", ".onnx")
ONNX_PACKAGES = ("onnx", "onnxscript", "onnxruntime")
TOLERANCE = 1e-4
"""Largest difference of a graph's outputs from the model's own, relative to the largest output above 1."""
CHECKED = ((1, 1), (1, 7), (2, 5), (5, 3), (2, 200))
"""Batch sizes and lengths with which a graph is checked; many models take another path for the last."""
_CDIST = (torch.ops.aten.cdist.default, torch.ops.aten._cdist_forward.default)
Run = Callable[[tuple[Tensor, ...]], Sequence[Tensor]]


def export(model: nn.Module, codec: Codec, path: Path) -> list[Path]:
    """Write the graphs of a model; see `TrainedModel.export`."""
    if path.suffix not in SUFFIXES:
        raise LabError(f"export={path.name}: the file must end in .pt2 (torch.export), .onnx or .safetensors")
    missing = [name for name in ONNX_PACKAGES if find_spec(name) is None] if path.suffix == ".onnx" else []
    if missing:
        raise LabError(f"export={path.name} needs {', '.join(missing)}: pip install -e '.[export]'")
    graphs = graphs_of(model.cpu(), codec.sizes if isinstance(codec, ClassificationCodec) else None)
    check_writable(path)  # before the minute that a large model takes
    contents: dict[Path, bytes] = {}
    described, largest = {}, 0.0
    for graph in graphs:
        file = path.with_suffix(f".{graph.name}{path.suffix}") if graph.name else path
        with _quiet():
            contents[file], run = _converted(graph, file)
        largest = max(largest, _check(graph, run, file))
        described[graph.name or "model"] = {
            "file": file.name,
            "inputs": graph.inputs,
            "outputs": graph.outputs,
            "longest": graph.longest,
        }
    about = {
        "model": type(model).__name__,
        "graphs": described,
        "codec": codec.state(),
        "special_symbols": {"pad": PAD, "begin": BOS, "end": EOS, "unknown": UNK, "unknown_tag": BOS},
        "largest_difference": largest,
    }
    description = json.dumps(about, indent=2, ensure_ascii=False) + "\n"
    files: dict[Path, str | bytes] = {**contents, path.with_suffix(".json"): description}
    write_together(files)  # only once all graphs have passed their comparison
    return list(files)


def _converted(graph: Graph, file: Path) -> tuple[bytes, Run]:
    """The content of the file for one graph, and a function that runs it."""
    # A longer example than any input would be traced as such, with other positions.
    length = 6 if graph.longest is None else min(6, graph.longest)
    # A batch of 3 would be taken for the number of a GRU's gates, and become a constant.
    example = graph.make(5, length)
    # Sizes that differ between the two examples are the batch size and the length.
    other = graph.make(2, max(1, length - 2))
    sizes = tuple(
        {axis: Dim.DYNAMIC for axis in range(one.dim()) if one.shape[axis] != two.shape[axis]}
        for one, two in zip(example, other, strict=True)
    )
    try:
        with torch.no_grad():
            program = torch.export.export(graph.module, example, dynamic_shapes=(sizes,), strict=False)
    except (RuntimeError, ValueError, TypeError, torch._dynamo.exc.TorchDynamoException) as error:
        if "to be a constant" in str(error):
            raise LabError(
                f"{file.name}: in the graph of this model, a batch size or length is a constant; write "
                "`x.shape[0]` instead of `len(x)`, and do not convert a size with int()"
            ) from error
        raise LabError(f"{file.name}: torch.export cannot trace this model: {named_line(error)}") from error
    if file.suffix == ".pt2":
        saved = BytesIO()
        torch.export.save(program, saved)
        return saved.getvalue(), _run_torch(saved.getvalue())
    if any("cdist" in str(node.target) for node in program.graph.nodes):  # which ONNX does not have
        program = program.run_decompositions(dict.fromkeys(_CDIST, _distances))
    inputs, outputs = list(graph.inputs), list(graph.outputs)
    try:
        written = torch.onnx.export(
            program, dynamo=True, verbose=False, input_names=inputs, output_names=outputs
        )
    except torch.onnx.OnnxExporterError as error:
        reason = named_line(error.__cause__ or error)[:300]
        unbound = isinstance(error.__cause__, PendingUnbackedSymbolNotFound)
        if unbound and any(isinstance(part, LocalP) for part in graph.module.modules()):
            # PyTorch's reason names its own symbols and tensors.
            reason = "window=local_p in a recurrent decoder with wiring=luong and without input feeding"
        raise LabError(
            f"{file.name}: ONNX cannot represent this model: {reason}; choose export=model.pt2"
        ) from error
    assert written is not None
    content = written.model_proto.SerializeToString()
    return content, _run_onnx(content)


def _distances(x: Tensor, y: Tensor, p: float = 2.0, mode: int | None = None) -> Tensor:
    """`torch.cdist` in plain operations."""
    apart = (x.unsqueeze(-2) - y.unsqueeze(-3)).abs()
    return apart.sum(-1) if p == 1 else apart.pow(p).sum(-1).pow(1 / p)


def _run_torch(content: bytes) -> Run:
    module = torch.export.load(BytesIO(content)).module()
    return lambda inputs: module(*inputs)


def _run_onnx(content: bytes) -> Run:
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]

    def run(inputs: tuple[Tensor, ...]) -> list[Tensor]:
        given = {name: one.numpy() for name, one in zip(names, inputs, strict=True)}
        return [torch.from_numpy(one) for one in session.run(None, given)]

    return run


@torch.no_grad()
def _check(graph: Graph, run: Run, file: Path) -> float:
    """The largest difference from the model itself, over several batch sizes and lengths.

    Raises:
        LabError: the difference is larger than rounding errors, or the graph fails for one of these sizes.
    """
    largest = 0.0
    for batch, length in CHECKED:
        if graph.longest is not None and length > graph.longest:
            continue
        inputs = graph.make(batch, length)
        expected = graph.expected(*inputs)
        try:
            found = run(inputs)
        except (AssertionError, RuntimeError) as error:  # such as a guard on the length
            made = dict(zip(graph.inputs, inputs, strict=True))  # several answers need a longer input
            longest = int(made["lengths"].max()) if "lengths" in made else length
            where = f"a batch of {batch} with length {longest}"
            raise LabError(f"{file}: the graph does not run on {where}: {named_line(error)}") from error
        for name, one, two in zip(graph.outputs, found, expected, strict=True):
            if one.shape != two.shape:
                raise LabError(f"{file}: {name} has the shape {list(one.shape)}, not {list(two.shape)}")
            largest = max(largest, _difference(one.double(), two.double()))
    if largest > TOLERANCE:
        raise LabError(f"{file}: its outputs differ from the model's by up to {largest:.2g}")
    return largest


def _difference(found: Tensor, expected: Tensor) -> float:
    """The largest difference, relative to the largest finite expected value above 1; infinite for NaN."""
    if not expected.numel():
        return 0.0
    apart = torch.where(found == expected, 0.0, (found - expected).abs())  # equal infinities do not differ
    scale = expected.abs().where(expected.isfinite(), 0.0).max().clamp(min=1.0)
    return float(apart.nan_to_num(torch.inf, torch.inf).max() / scale)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporters' messages about their own internals; they raise their errors as well."""
    loggers: list[tuple[Any, int]] = []
    for name in ("torch.onnx", "torch.fx", "torch._subclasses", "onnxscript", "onnx_ir"):
        logger = logging.getLogger(name)
        loggers.append((logger, logger.level))
        logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stderr(StringIO()):  # torch prints a graph that fails
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in loggers:
            logger.setLevel(level)
