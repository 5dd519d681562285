"""The layers that the models are built from."""
