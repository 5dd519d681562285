"""The command line: overrides, groups, incompatible choices, and checks of options."""
