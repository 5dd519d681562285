"""The tools from which data sets are built: files, codecs, vocabulary, splits, batches and bucketing."""
