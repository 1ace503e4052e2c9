"""What `make test` leaves to `make test-all`: most of the large grids and of PyTorch's databases.

What is left out goes by a hash of its name, so that every kind of case has its share.
"""

import os
import zlib

ALL = bool(os.environ.get("THUNDER_ALL_SAMPLES"))


def taken(name, parts):
    """Whether the short run takes it: one of `parts`, and the same ones on every machine."""
    return ALL or zlib.crc32(name.encode()) % parts == 0


def turn(name, of):
    """Which of the list the short run takes, in a list; all of it otherwise."""
    return list(of) if ALL else list(of)[zlib.crc32(name.encode()) % len(of) :][:1]
