"""Replace the attention of a model of torch or transformers with any mechanism."""

from attention_lab.attention.replacing.replace import replace_attention

__all__ = ["replace_attention"]
