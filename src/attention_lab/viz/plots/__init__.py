"""All plots other than heatmaps, drawn with matplotlib in one style."""

from attention_lab.viz.plots.figure import draw_panels, make_figure, plot_file

__all__ = ["draw_panels", "make_figure", "plot_file"]
