"""Losses beside cross entropy: of hard attention, of agreement (R-Drop), of guided attention."""
