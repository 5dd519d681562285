"""Pictures of attention: numbers and labels in, an image out. matplotlib is imported only if needed."""

from attention_lab.viz.cells import Heatmap, record_heatmaps
from attention_lab.viz.colour_scale import rounded_top
from attention_lab.viz.formats import Format, to_png
from attention_lab.viz.heatmap import draw_heatmaps
from attention_lab.viz.heatmap_figure.figure import show_heatmaps
from attention_lab.viz.overlay import draw_overlays
from attention_lab.viz.overlay_cells import Overlay
from attention_lab.viz.thumbnail import draw_thumbnail

__all__ = [
    "Format",
    "Heatmap",
    "Overlay",
    "draw_heatmaps",
    "draw_overlays",
    "draw_thumbnail",
    "record_heatmaps",
    "rounded_top",
    "show_heatmaps",
    "to_png",
]
