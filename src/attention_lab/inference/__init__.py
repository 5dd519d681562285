"""Use trained models: prediction, export, safetensors files, and the command `g2p`."""
