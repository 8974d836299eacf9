"""Lengths as a user writes them."""

GRAMMAR = (
    "20:5120 doubles from 20 up to and including 5120; 40:256:8 is 8 lengths evenly spaced, both "
    "ends included; 20,40,100 is a list, and its parts may be any of these"
)


def parse_lengths(text: str) -> list[int]:
    """Lengths in rising order, without repetition.

    Args:
        text: parts separated by commas. A part is one length, start:end (doubling, the end
            included) or start:end:count (evenly spaced, rounded to integers).

    Raises:
        ValueError: if a part is none of these, or out of range.

    >>> parse_lengths("20:200")
    [20, 40, 80, 160, 200]
    >>> parse_lengths("40:256:4,1000")
    [40, 112, 184, 256, 1000]
    """
    return sorted({length for part in text.split(",") for length in _part(part.strip())})


def _part(text: str) -> list[int]:
    try:
        start, *others = (int(number) for number in text.split(":"))
    except ValueError:
        raise ValueError(
            f"{text!r} is no length; expected an integer, start:end or start:end:count"
        ) from None
    if len(others) > 2:
        raise ValueError(f"{text} has too many parts; expected start:end or start:end:count")
    end = others[0] if others else start
    if not 1 <= start <= end:
        raise ValueError(f"{text}; expected 1 <= start <= end")
    if len(others) < 2:
        return _doubling(start, end)
    return _evenly_spaced(start, end, others[1])


def _doubling(start: int, end: int) -> list[int]:
    lengths = []
    while start < end:
        lengths.append(start)
        start *= 2
    return [*lengths, end]


def _evenly_spaced(start: int, end: int, count: int) -> list[int]:
    available = end - start + 1
    if not min(2, available) <= count <= available:
        raise ValueError(
            f"{start}:{end}:{count}; expected a count of {min(2, available)} to {available}"
        )
    if count == 1:
        return [start]
    gaps = count - 1
    return [(2 * (start * (gaps - i) + end * i) + gaps) // (2 * gaps) for i in range(count)]
