"""What ours is compared with, where it takes more than a call: other libraries, and plain PyTorch."""
