"""Receptive fields, and path lengths between positions, measured by gradients."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from PIL.Image import Image
from torch import Tensor, nn

from attention_lab.argument_checks import check_counts
from attention_lab.attention import Band, Mechanism, ScaledDot
from attention_lab.attention.attention import check_mechanism
from attention_lab.errors import LabError
from attention_lab.models.parts.convolution import ConvolutionalEncoder
from attention_lab.models.parts.encoder import Encoder
from attention_lab.models.parts.recurrent_cells import LateLSTM
from attention_lab.theorems.finding import Cell, Figure, Finding, seeded
from attention_lab.theorems.option_checks import check_list
from attention_lab.viz.plots import draw_panels
from attention_lab.viz.plots.panels import Cells, Lines, Series

Network = Callable[[Tensor, int, int], Tensor]
"""Maps an input `[L, d]`, a position and a depth (layers, or steps of a cell) to the output `[d]` there."""
Field = npt.NDArray[np.float64]

FIELD = 129
"""Length of the sequences in whose middle the receptive field is measured."""
SHOWN = 49
"""Number of inputs in the middle that the picture shows."""


class Kind(NamedTuple):
    """A kind of network.

    Attributes:
        name: its name.
        order: how its path length grows with the distance n, as in the paper.
        network: computes an output at some depth.
        expected: the depth that a path over n positions needs.
    """

    name: str
    order: str
    network: Network
    expected: Callable[[int], int]


class ReceptiveField:
    """Path lengths of attention, convolution and recurrence (1706.03762, section 4 and table 1).

    An output sees an input if its gradient w.r.t. that input is not zero. The path length between two
    positions n apart is the smallest number of layers (of an encoder) or steps (of a cell) after which the
    output at the later position sees the input at the earlier one. There are n more positions on either side,
    because paths may extend past the ends. The networks are the encoders and the cell that our models use, in
    float64.

    Args:
        distances: n, each at least 1.
        depths: number of layers or steps for which the receptive field is shown.
        kernel_size: k of the convolutions; odd.
        width: width of the window of restricted attention, on either side.
        size: size of the representations.
        mechanism: the unrestricted attention.
    """

    def __init__(
        self,
        distances: Sequence[int] = (1, 2, 4, 8, 16, 32, 64),
        depths: int = 8,
        kernel_size: int = 3,
        width: int = 4,
        size: int = 8,
        mechanism: Mechanism | None = None,
    ) -> None:
        check_list("distances", distances, least=1, whole=True)
        check_counts("theorem", 1, depths=depths, width=width)
        check_counts("theorem", 2, size=size)
        check_counts("theorem", 3, kernel_size=kernel_size)
        if size % 2:
            raise LabError(f"theorem.size={size} must be even")
        if kernel_size % 2 == 0:
            raise LabError(f"theorem.kernel_size={kernel_size} must be odd")
        self.distances, self.depths = distances, depths
        self.kernel_size, self.width, self.size = kernel_size, width, size
        self.mechanism = Mechanism(ScaledDot) if mechanism is None else mechanism
        check_mechanism(self.mechanism)

    def run(self, seed: int) -> Finding:
        """Measure the path length of every kind at every distance, and receptive fields layer by layer."""
        with seeded(seed):
            kinds = self._kinds()
            paths = {kind.name: [self._path(kind, distance) for distance in self.distances] for kind in kinds}
            maps = {kind.name: self._map(kind) for kind in kinds}
        rows: list[list[Cell]] = [
            [f"path over n = {distance}", *(paths[kind.name][place] for kind in kinds)]
            for place, distance in enumerate(self.distances)
        ]
        rows += [
            [f"inputs seen after {depth + 1}", *(int(maps[kind.name][depth].sum()) for kind in kinds)]
            for depth in range(min(4, self.depths))
        ]
        holds = all(
            found == kind.expected(distance)
            for kind in kinds
            for found, distance in zip(paths[kind.name], self.distances, strict=True)
        )
        return Finding(
            title="Path lengths and receptive fields",
            claim="Between positions n apart, information takes one layer of self-attention, O(n/r) layers "
            "of attention to r neighbours, O(n/k) layers of convolution, O(log_k n) if they are dilated, "
            "and O(n) steps of recurrence.",
            source="1706.03762, section 4 and table 1",
            columns=("layers or steps", *(kind.name for kind in kinds)),
            rows=rows,
            criterion="at every distance the gradient first arrives after exactly the number of "
            "layers or steps that the window, the kernel or the recurrence allows",
            holds=holds,
            figures=(
                Figure("paths", partial(self._draw_paths, kinds, paths)),
                Figure("fields", partial(self._draw_fields, maps)),
            ),
            notes=(
                f"kernel size {self.kernel_size}, windows of {self.width} to either side; {FIELD} inputs",
            ),
        )

    def _kinds(self) -> list[Kind]:
        side = self.kernel_size // 2
        restricted = Mechanism(self.mechanism.score, window=partial(Band, width=self.width))
        return [
            Kind("attention", "O(1)", self._attention(self.mechanism), lambda n: 1),
            Kind(
                "restricted attention",
                "O(n / r)",
                self._attention(restricted),
                lambda n: -(-n // self.width),
            ),
            Kind("convolution", "O(n / k)", self._convolution(dilated=False), lambda n: -(-n // side)),
            Kind(
                "dilated convolution",
                "O(log_k n)",
                self._convolution(dilated=True),
                lambda n: next(d for d in range(1, 99) if side * _steps(self.kernel_size, d) >= n),
            ),
            Kind("recurrence", "O(n)", self._recurrence(), lambda n: n + 1),
        ]

    def _attention(self, mechanism: Mechanism) -> Network:
        return self._stack(
            lambda layers: Encoder(
                mechanism, d_model=self.size, heads=2, layers=layers, feedforward=self.size, dropout=0.0
            )
        )

    def _convolution(self, *, dilated: bool) -> Network:
        def make(layers: int) -> nn.Module:
            encoder = ConvolutionalEncoder(
                d_model=self.size, layers=layers, kernel_size=self.kernel_size, dropout=0.0
            )
            for level, convolution in enumerate(m for m in encoder.modules() if isinstance(m, nn.Conv1d)):
                spread = self.kernel_size**level if dilated else 1
                convolution.dilation = (spread,)
                convolution.padding = (spread * (self.kernel_size // 2),)
            return encoder

        return self._stack(make)

    def _stack(self, make: Callable[[int], nn.Module]) -> Network:
        """The network that takes the output of an encoder with `depth` layers."""

        def network(x: Tensor, position: int, depth: int) -> Tensor:
            encoder = make(depth).double()
            output: Tensor = encoder(x.unsqueeze(0), torch.tensor([len(x)]))[0, position]
            return output

        return network

    def _recurrence(self) -> Network:
        """The network that takes the state of a cell after `depth` steps, the last at the position."""
        cell = LateLSTM(0, self.size, self.size).double()

        def network(x: Tensor, position: int, depth: int) -> Tensor:
            state = (x.new_zeros(1, self.size), x.new_zeros(1, self.size))
            for one in x[max(0, position + 1 - depth) : position + 1]:
                hidden, memory = cell(cell.early(None), one.unsqueeze(0), state)
                state = (hidden, memory)
            return state[0].squeeze(0)

        return network

    def _sees(self, kind: Kind, length: int, position: int, depth: int) -> Tensor:
        """Which inputs the output at a position depends on, bool `[L]`."""
        x = torch.randn(length, self.size, dtype=torch.float64, requires_grad=True)
        output = kind.network(x, position, depth)
        # A random direction: the sum over a normalised vector is constant.
        (gradient,) = torch.autograd.grad(output, x, torch.randn_like(output))
        return gradient.abs().amax(-1) > 0

    def _path(self, kind: Kind, distance: int) -> int:
        """The smallest depth at which an output sees the input `distance` before it, by bisection."""

        def arrives(depth: int) -> bool:
            return bool(self._sees(kind, 3 * distance + 1, 2 * distance, depth)[distance])

        blind, seeing = 0, 1
        while not arrives(seeing):
            blind, seeing = seeing, 2 * seeing
        while seeing - blind > 1:
            middle = (blind + seeing) // 2
            blind, seeing = (blind, middle) if arrives(middle) else (middle, seeing)
        return seeing

    def _map(self, kind: Kind) -> Field:
        """The inputs that the output in the middle sees after 1, 2, ... layers or steps."""
        rows = [self._sees(kind, FIELD, FIELD // 2, depth) for depth in range(1, self.depths + 1)]
        return torch.stack(rows).double().numpy()

    def _draw_paths(self, kinds: Sequence[Kind], paths: dict[str, list[int]]) -> Image:
        lines = [Series(f"{kind.name}, {kind.order}", self.distances, paths[kind.name]) for kind in kinds]
        panel = Lines(
            lines,
            x_label="distance n between two positions",
            y_label="layers, or steps, between them",
            log_x=True,
            log_y=True,
            ticks=self.distances,
        )
        note = "least depth at which the gradient of one w.r.t. the other is not zero; "
        note += f"kernel {self.kernel_size}, window {self.width}"
        return draw_panels([panel], title="Path lengths between two positions", note=note)

    def _draw_fields(self, maps: dict[str, Field]) -> Image:
        depths = [str(depth) for depth in range(1, self.depths + 1)]
        margin = (FIELD - SHOWN) // 2
        panels = [
            Cells(
                field[:, margin : margin + SHOWN],
                name,
                x_label="input position",
                y_label="layers or steps" if place == 0 else "",
                rows=depths,
                maximum=1.4,
            )
            for place, (name, field) in enumerate(maps.items())
        ]
        return draw_panels(
            panels,
            title="Receptive field of the output in the middle",
            note="dark: the gradient of the output w.r.t. this input is not zero",
        )


def _steps(kernel: int, depth: int) -> int:
    """`1 + k + ... + k^(depth - 1)`."""
    return sum(kernel**level for level in range(depth))
