"""Subwords: pieces of words, learned from the training texts and kept as plain values."""

from attention_lab.data.subwords.byte_pairs import (
    Splitter,
    check_pieces,
    check_tokenizers,
    learn_pieces,
    pieces_of,
)

__all__ = ["Splitter", "check_pieces", "check_tokenizers", "learn_pieces", "pieces_of"]
