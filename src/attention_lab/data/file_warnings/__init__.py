"""Warnings and hints about data files: another format, long lines, repeated examples, unseen symbols."""
