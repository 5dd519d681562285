"""What the data sets are read with: files, codecs, vocabulary, splits, batches and loading."""
