"""Compare settings over their seeds: ranking, significance, tables and plots."""
