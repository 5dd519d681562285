"""The package as a command: `python -m attention_lab g2p "hello attention"`."""

import signal
import sys

from attention_lab.inference.command import main

if __name__ == "__main__":
    # Like other filters, end silently on Ctrl-C, and when `| head` closes the pipe.
    for name in ("SIGINT", "SIGPIPE"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    sys.exit(main())
