"""The kinds of matrices in Python are those of the C header."""

import re
from pathlib import Path

import slicekit
from slicekit.native.kernel import Kind

HEADER = Path(slicekit.__file__).parents[2] / "native" / "include" / "slicekit.h"


def test_kinds_are_those_of_the_header() -> None:
    kinds = HEADER.read_text().partition("What matrices are made of")[2].partition("};")[0]
    named = re.findall(r"SLICEKIT_([A-Z_]+) = (\d+)", kinds)
    assert {kind.name: kind.value for kind in Kind} == {name: int(n) for name, n in named}
