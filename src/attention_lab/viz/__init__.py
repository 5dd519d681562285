"""Pictures of attention: numbers and labels in, an image out; numpy and Pillow only."""

from attention_lab.viz.cells import Heatmap, Scale
from attention_lab.viz.curve import Series, draw_curve
from attention_lab.viz.heatmap import draw_heatmaps
from attention_lab.viz.png import to_png

__all__ = ["Heatmap", "Scale", "Series", "draw_curve", "draw_heatmaps", "to_png"]
