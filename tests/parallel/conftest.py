"""One group of ranks for all tests here."""

from collections.abc import Iterator

import pytest

from tests.parallel.group import Ranks


@pytest.fixture(scope="session")
def ranks() -> Iterator[Ranks]:
    """Five processes on this machine."""
    group = Ranks()
    yield group
    group.close()
