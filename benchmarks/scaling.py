"""Estimate data-parallel training on several GPUs from the measurements of one; see docs/scaling.md.

python -m benchmarks.scaling --parameters 1106987 --forward-ms 4 --backward-ms 6
"""

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from attention_lab.text_tables import markdown_table

BUCKET = 25 * 2**20
"""Size in bytes of the buckets of gradients that DistributedDataParallel sends."""
FLOAT = 4
"""Bytes per gradient."""


@dataclass(frozen=True)
class Step:
    """A training step on one device.

    Args:
        parameters: number of trained parameters of the model.
        forward: seconds for everything but the backward pass: forward, clipping, optimiser.
        backward: seconds for the backward pass, during which gradients are sent.
        spread: standard deviation of a step's time between devices, divided by its mean.
    """

    parameters: int
    forward: float
    backward: float
    spread: float = 0.0


@dataclass(frozen=True)
class Link:
    """The connection between devices.

    Args:
        bandwidth: bytes per second that a device can send while it receives as many.
        latency: seconds until a message arrives at a neighbour.
    """

    bandwidth: float
    latency: float


NODE, NETWORK = Link(400e9, 5e-6), Link(50e9, 15e-6)
"""Assumed, not measured: NVLink between 8 GPUs of a node, and 400 Gbit/s for each GPU between nodes."""
IN_A_NODE = 8


def sent(parameters: int, devices: int, width: int = FLOAT) -> float:
    """Bytes that each device sends per step in a ring, `2 (n - 1) / n * parameters * width`."""
    return 2 * (devices - 1) / devices * parameters * width


def buckets(parameters: int) -> int:
    """The number of pieces in which the gradients are sent."""
    return max(1, math.ceil(parameters * FLOAT / BUCKET))


def communication(parameters: int, devices: int, link: Link) -> float:
    """Seconds of communication alone: for the bytes, and for each bucket's latency along a tree and back."""
    latency = buckets(parameters) * 2 * math.ceil(math.log2(devices)) * link.latency
    return sent(parameters, devices) / link.bandwidth + latency


def exposed(step: Step, devices: int, link: Link) -> float:
    """Seconds of communication that the backward pass does not hide.

    Each of k equal buckets is sent once it is complete and the previous one is sent. The first is complete
    after a k-th of the backward pass, the last at its end: `max(c / k, c - (k - 1) / k * backward)`.
    """
    pieces = buckets(step.parameters)
    seconds = communication(step.parameters, devices, link)
    return max(seconds / pieces, seconds - (pieces - 1) / pieces * step.backward)


def efficiency(step: Step, devices: int, link: Link) -> float:
    """The speed-up over one device, divided by the number of devices; the batch per device is the same.

    A step waits for the slowest of n devices: `mean (1 + spread sqrt(2 ln n))` if times are normal.
    """
    if devices == 1:
        return 1.0
    alone = step.forward + step.backward
    waiting = alone * step.spread * math.sqrt(2 * math.log(devices))
    return alone / (alone + waiting + exposed(step, devices, link))


def link_of(devices: int) -> Link:
    """The slowest link that this many devices need."""
    return NODE if devices <= IN_A_NODE else NETWORK


def table(steps: dict[str, Step], devices: Sequence[int] = (2, 8, 64), link: Link | None = None) -> str:
    """Bytes sent, exposed seconds and efficiency as Markdown; with the assumed links unless one is given."""
    columns = ["training step", "parameters", "step"]
    columns += [f"{n} GPUs: sent, exposed, efficiency" for n in devices]
    rows = []
    for name, step in steps.items():
        cells = [name, f"{step.parameters:,}", f"{(step.forward + step.backward) * 1e3:.3g} ms"]
        for n in devices:
            used = link or link_of(n)
            megabytes = sent(step.parameters, n) / 1e6
            cells.append(
                f"{megabytes:,.{0 if megabytes >= 100 else 1}f} MB, {exposed(step, n, used) * 1e3:.2g} ms, "
                f"{efficiency(step, n, used):.1%}"
            )
        rows.append(cells)
    return markdown_table(columns, rows, numbers_from=1)


ASSUMED = {
    "default (`model=seq2seq`)": Step(1_106_987, 4e-3, 6e-3),
    "`model=transformer`": Step(935_680, 4e-3, 6e-3),
    "`experiment=g2p_cmudict`": Step(2_245_547, 8e-3, 12e-3),
    "encoder, 12 layers, d 1,024, 8 x 2,048 tokens": Step(151_156_736, 21e-3, 42e-3),
}
"""The numbers of parameters are counted; the seconds are assumed until a GPU has been timed."""


def main(arguments: list[str] | None = None) -> int:
    """Print the table for the assumed steps, or for a given one."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--parameters", type=int, help="of the model (default: the steps of docs/scaling.md)")
    parser.add_argument(
        "--forward-ms", type=float, default=4.0, help="time of a step without its backward pass"
    )
    parser.add_argument("--backward-ms", type=float, default=6.0, help="time of its backward pass")
    parser.add_argument(
        "--spread", type=float, default=0.0, help="relative deviation of a step's time between devices"
    )
    parser.add_argument("--devices", type=int, nargs="+", default=[2, 8, 64], metavar="N")
    parser.add_argument("--gb-per-second", type=float, help="sent by a device (default: the assumed links)")
    parser.add_argument("--latency-us", type=float, default=5.0, help="latency of such a link")
    given = parser.parse_args(arguments)
    steps = ASSUMED
    if given.parameters:
        seconds = given.forward_ms / 1e3, given.backward_ms / 1e3
        steps = {"yours": Step(given.parameters, *seconds, given.spread)}
    link = Link(given.gb_per_second * 1e9, given.latency_us / 1e6) if given.gb_per_second else None
    print(table(steps, given.devices, link))
    return 0


if __name__ == "__main__":
    sys.exit(main())
