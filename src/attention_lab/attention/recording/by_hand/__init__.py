"""Attention that a model computes from basic operations."""

from attention_lab.attention.recording.by_hand.hand_written import ByHand

__all__ = ["ByHand"]
