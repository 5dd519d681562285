"""Settings compared over their seeds: ranking, significance, tables and plots."""
