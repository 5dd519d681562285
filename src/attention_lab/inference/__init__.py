"""Trained models in use: prediction, export, models in safetensors files, and the command `g2p`."""
