"""Plain `nn.Module`s built from attention: no training, no data, no configuration."""

from attention_lab.models.encoder import Encoder, SequenceClassifier
from attention_lab.models.kernel_regression import KernelRegression
from attention_lab.models.seq2seq import Seq2Seq

__all__ = ["Encoder", "KernelRegression", "Seq2Seq", "SequenceClassifier"]
