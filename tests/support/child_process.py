"""Run a test in a forked process."""

import os
import traceback
from collections.abc import Callable
from functools import wraps
from typing import Any


def in_child_process(test: Callable[..., None]) -> Callable[..., None]:
    """Run a test that starts threads of autograd: a process that has them cannot fork others that train."""

    @wraps(test)
    def forked(*arguments: Any, **options: Any) -> None:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.close(reader)
                test(*arguments, **options)
                status = 0
            except BaseException:  # noqa: BLE001  # nothing may reach the process that was forked
                os.write(writer, traceback.format_exc()[-10_000:].encode())
            finally:
                os._exit(status)
        os.close(writer)
        with os.fdopen(reader, errors="replace") as pipe:
            error = pipe.read()
        _, status = os.waitpid(child, 0)
        assert status == 0, error

    return forked
