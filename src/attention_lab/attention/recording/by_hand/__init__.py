"""Attention that a model computes from basic operations; followed step by step, from `hand_written`."""
