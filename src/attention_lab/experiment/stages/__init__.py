"""The stages of an experiment, one in each file; `experiment.STAGES` lists them all."""
