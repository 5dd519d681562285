"""A convolution is self-attention with one head for each pixel of its kernel."""

import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from attention_lab.argument_checks import check_number
from attention_lab.attention import Constant, Mechanism, MultiHead, recording
from attention_lab.attention.positions import Quadratic
from attention_lab.errors import LabError
from attention_lab.theorems.finding import Cell, Figure, Finding, largest_difference, seeded
from attention_lab.theorems.option_checks import check_list, check_pairs, check_tolerance
from attention_lab.viz.plots import draw_panels
from attention_lab.viz.plots.panels import Cells, Lines, Panel, Series


class Frame(NamedTuple):
    """How a convolution treats the border of a picture, for a kernel of K pixels a side.

    Attributes:
        mode: mode of `torch.nn.functional.pad` for the border of the picture.
        before: pixels added above and to the left.
        after: pixels added below and to the right.
    """

    mode: str
    before: int
    after: int


class ConvolutionEquivalence:
    """Multi-head self-attention expresses any convolution (1911.03584, theorem 1).

    With K^2 heads, a constant score and the quadratic relative bias

        a_h(q, k) = softmax_k(-alpha |delta - Delta_h|^2),   delta = position of k - position of q,

    head h attends, for large alpha, only to the pixel at Delta_h. If W^V passes on the input's channels and
    the rows of W^O for head h are the kernel's weights at Delta_h, the sum over heads is the convolution. A
    head that looks beyond the picture attends to the nearest pixel inside, so padding by replication comes
    for free; any other padding is added to the picture and attended to like the rest of it.

    Args:
        kernels: K, the side of the kernels.
        paddings: any of `valid`, `replicate`, `zeros`, `circular`, `full`.
        channels: pairs of input and output channel counts.
        grid: rows and columns of the pictures.
        sharpness: alpha.
        sweep: values of alpha at which the difference is plotted.
        tolerance: largest difference that counts as equal, in float32.
    """

    def __init__(
        self,
        kernels: Sequence[int] = (1, 2, 3, 5),
        paddings: Sequence[str] = ("valid", "replicate", "zeros", "circular", "full"),
        channels: Sequence[Sequence[int]] = ((3, 4), (4, 2)),
        grid: Sequence[int] = (9, 8),
        sharpness: float = 46.0,
        sweep: Sequence[float] = (1, 2, 3, 4, 6, 8, 11, 14, 17, 20, 25, 30, 38, 46),
        tolerance: float = 1e-5,
    ) -> None:
        if not paddings:
            raise LabError("theorem.paddings=[]: give at least one")
        for padding in paddings:
            frame(padding, 1)
        check_list("kernels", kernels, least=1, whole=True)
        check_pairs("channels", channels, "numbers of input and output channels, such as [[3,4]]")
        check_list("channels", [number for pair in channels for number in pair], least=1, whole=True)
        check_number("theorem.sharpness", sharpness, above=0)
        check_list("sweep", sweep, above=0)
        check_tolerance(tolerance)
        if len(grid) != 2 or min(grid) < max(kernels):
            raise LabError(
                f"theorem.grid={list(grid)} must be two numbers, each at least as large as the largest kernel"
            )
        self.kernels, self.paddings, self.channels, self.grid = kernels, paddings, channels, tuple(grid)
        self.sharpness, self.sweep, self.tolerance = sharpness, sweep, tolerance

    def run(self, seed: int) -> Finding:
        """Compare with `torch.nn.functional.conv2d`, one row for each kernel and padding."""
        rows: list[list[Cell]] = []
        with seeded(seed):
            for kernel in self.kernels:
                for padding in self.paddings:
                    found = max(
                        self._compare(kernel, padding, inputs, outputs, [self.sharpness])[0]
                        for inputs, outputs in self.channels
                    )
                    rows.append([f"{kernel} x {kernel}", padding, kernel**2, found])
            panels: list[Panel] = [self._curve(), *(self._map(alpha) for alpha in (1.0, 4.0))]
        largest = max(float(row[-1]) for row in rows)
        return Finding(
            title="A convolution is multi-head self-attention",
            claim="K^2 heads with a constant score and quadratic relative positions give the output of any "
            "K x K convolution: each head attends to one pixel of the kernel.",
            source="1911.03584, theorem 1 and eq. 9",
            columns=("kernel", "padding", "heads", "largest difference"),
            rows=rows,
            criterion=f"every difference from conv2d is below {self.tolerance:g} in float32, "
            f"at alpha = {self.sharpness:g}",
            holds=largest < self.tolerance,
            figures=(
                Figure(
                    "convolution",
                    partial(
                        draw_panels,
                        panels,
                        title="Self-attention becomes a convolution as its heads sharpen",
                        note="one head for each pixel of the kernel; right: where one looks from the ring",
                    ),
                ),
            ),
        )

    def _curve(self) -> Lines:
        """The difference plotted against alpha, down to rounding errors."""
        lines = []
        inputs, outputs = self.channels[0]
        for number, kernel in enumerate(kernel for kernel in self.kernels if kernel > 1):
            for dtype in (torch.float64, torch.float32):
                found = self._compare(kernel, "zeros", inputs, outputs, self.sweep, dtype)
                shown = [(alpha, one) for alpha, one in zip(self.sweep, found, strict=True) if one > 0]
                x, y = [alpha for alpha, _ in shown], [one for _, one in shown]
                if dtype == torch.float64:
                    lines.append(Series(f"{kernel} x {kernel}, {kernel**2} heads", x, y, colour=number))
                else:
                    lines.append(Series("", x, y, style="dots", colour=number))
        ends = (min(self.sweep), max(self.sweep))
        lines.append(
            Series("falls as exp(-alpha)", ends, [0.3 * math.exp(-end) for end in ends], style="dashed")
        )
        return Lines(
            lines,
            title="Difference from conv2d; dots: in float32",
            x_label="sharpness alpha",
            y_label="largest absolute difference",
            log_y=True,
        )

    def _compare(
        self,
        kernel: int,
        padding: str,
        inputs: int,
        outputs: int,
        sharpness: Sequence[float],
        dtype: torch.dtype = torch.float32,
    ) -> list[float]:
        """The largest difference at each alpha, for one random picture, kernel and bias."""
        picture = torch.randn(2, inputs, *self.grid, dtype=dtype)
        weight = torch.randn(outputs, inputs, kernel, kernel, dtype=dtype) * (inputs * kernel**2) ** -0.5
        bias = torch.randn(outputs, dtype=dtype)
        around = frame(padding, kernel)
        expected = F.conv2d(_padded(picture, around), weight, bias)
        return [
            largest_difference(attend(picture, weight, bias, around, alpha), expected) for alpha in sharpness
        ]

    def _map(self, alpha: float) -> Cells:
        """Where the first head attends from the pixel in the middle."""
        kernel = max(self.kernels)
        rows, columns = self.grid
        middle = (rows // 2, columns // 2)
        before = kernel // 2
        layer = as_attention(
            torch.ones(1, 1, kernel, kernel),
            torch.zeros(1),
            self.grid,
            alpha,
            before,
            torch.arange(kernel**2),
        )
        with recording(layer) as weights:
            layer(torch.zeros(1, rows * columns, layer.output.in_features))
        seen = weights["attention"][0, 0, middle[0] * columns + middle[1]].view(rows, columns)
        title = f"Head 1 of {kernel**2}, alpha = {alpha:g}"
        return Cells(seen.numpy(), title, mark=middle, maximum=1.0)


def frame(padding: str, kernel: int) -> Frame:
    """The border of a convolution by its name; for even K, the larger margin comes after the picture."""
    before, after = (kernel - 1) // 2, kernel // 2
    frames = {
        "valid": Frame("constant", 0, 0),
        "replicate": Frame("replicate", before, after),
        "zeros": Frame("constant", before, after),
        "circular": Frame("circular", before, after),
        "full": Frame("constant", kernel - 1, kernel - 1),
    }
    if padding not in frames:
        raise LabError(f"theorem.paddings: {padding} is unknown: choose {', '.join(frames)}")
    return frames[padding]


def as_attention(
    weight: Tensor, bias: Tensor, grid: Sequence[int], sharpness: float, before: int, order: Tensor
) -> MultiHead:
    """The self-attention that equals the convolution with `weight` `[out, in, K, K]`.

    Args:
        weight: weight of the convolution.
        bias: bias of the convolution, `[out]`.
        grid: rows and columns of the attended picture.
        sharpness: alpha.
        before: how far above and to the left of a query the kernel starts.
        order: the pixel of the kernel that each head attends to, `[K * K]`.
    """
    outputs, inputs, side, _ = weight.shape
    heads, width = side**2, max(inputs, outputs)  # a head carries every channel
    size = heads * width
    relative = Quadratic(heads, width, grid=list(grid))
    layer = MultiHead(Mechanism(Constant), size, heads, relative=relative).to(weight.dtype)
    place = torch.arange(side) - before
    with torch.no_grad():
        relative.centre.copy_(torch.cartesian_prod(place, place).to(relative.centre.dtype).view(-1, 2)[order])
        relative.log_sharpness.fill_(math.log(sharpness))
        layer.project.weight.zero_()
        layer.project.weight[2 * size :].view(heads, width, size)[:, :inputs, :inputs] = torch.eye(
            inputs, dtype=weight.dtype
        )
        layer.output.weight.zero_()
        by_head = layer.output.weight.view(size, heads, width)
        by_head[:outputs, :, :inputs] = weight.flatten(2)[..., order].mT
        layer.output.bias.zero_()
        layer.output.bias[:outputs] = bias
    return layer


@torch.no_grad()
def attend(picture: Tensor, weight: Tensor, bias: Tensor, around: Frame, sharpness: float) -> Tensor:
    """The convolution of a picture `[B, C, rows, columns]`, computed by self-attention of its pixels."""
    outputs, inputs, side, _ = weight.shape
    free = around.mode == "replicate"  # heads that look beyond the picture see its nearest pixel
    source = picture if free else _padded(picture, around)
    grid = source.shape[-2:]
    # Any head may take any pixel. In the kernel's order the sums could even be bitwise equal.
    order = torch.randperm(side**2)
    layer = as_attention(weight, bias, grid, sharpness, around.before if free else 0, order)
    pixels = source.flatten(2).mT
    pixels = F.pad(pixels, (0, layer.output.in_features - inputs))
    result: Tensor = layer(pixels)[..., :outputs].mT.unflatten(-1, tuple(grid))
    rows, columns = (size if free else size - side + 1 for size in grid)
    return result[..., :rows, :columns]


def _padded(picture: Tensor, around: Frame) -> Tensor:
    return F.pad(picture, (around.before, around.after) * 2, mode=around.mode)
