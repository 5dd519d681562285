"""Attention of libraries that hide its weights: their modules and interfaces, each in a file of its own."""
