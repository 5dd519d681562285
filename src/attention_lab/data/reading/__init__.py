"""The tools that data sets are built with: files, codecs, vocabulary, splits, batches and bucketing."""
