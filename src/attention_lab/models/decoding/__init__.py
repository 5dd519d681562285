"""Generate sequences with a model: greedy search, beam search, n-best lists, rescoring, or sampling."""
