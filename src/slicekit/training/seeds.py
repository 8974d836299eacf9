"""Seeds for purposes that must not share their random numbers."""

import hashlib


def derived_seed(seed: int, purpose: str) -> int:
    """A seed for one purpose, unrelated to those of other purposes and other seeds.

    >>> derived_seed(0, "dropout") == derived_seed(0, "dropout")
    True
    >>> derived_seed(0, "dropout") == derived_seed(1, "dropout")
    False
    """
    digest = hashlib.blake2b(f"{seed} {purpose}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
