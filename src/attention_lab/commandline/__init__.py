"""The command line: overrides, groups, choices that do not go together, and errors in options."""
