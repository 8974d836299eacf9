"""The kinds of parts in Python are those of the C headers."""

import re
from pathlib import Path

import slicekit
from slicekit.native.given import NUMBERS
from slicekit.native.kernel import Kind

HEADERS = Path(slicekit.__file__).parents[2] / "native" / "include"


def numbers(header: str) -> dict[str, int]:
    """All that the enumerations of a header name."""
    text = (HEADERS / header).read_text()
    return {name: int(value) for name, value in re.findall(r"SLICEKIT_([A-Z_]+) = (\d+)", text)}


def test_kinds_are_those_of_the_headers() -> None:
    found = numbers("slicekit_panels.h") | numbers("slicekit_step.h")
    made = {kind.name: kind.value for kind in Kind if kind is not Kind.DIAGONAL}
    assert made == {name: found[name] for name in made}


def test_given_transitions_are_counted_as_their_header_does() -> None:
    found = numbers("slicekit_given.h")
    assert {kind.name: number for kind, number in NUMBERS.items()} == {
        name.removeprefix("GIVEN_"): value for name, value in found.items()
    }
