"""The ids of the special symbols in every vocabulary: padding, begin, end and unknown."""

PAD, BOS, EOS, UNK = 0, 1, 2, 3
