"""Losses other than plain cross entropy: hard attention, agreement (R-Drop) and guided attention."""
