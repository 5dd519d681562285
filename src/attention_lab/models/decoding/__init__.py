"""Write sequences with a model: greedily, by beam search, as n best, rescored, or by sampling."""
