"""The table of mixers on the screen, and as JSON."""

from collections.abc import Iterable
from typing import Any

from slicekit.bench.mixers import OURS, MixerRow


def print_head() -> None:
    """The heading of the table."""
    print("\nmixers, forward and backward: processor µs an element on one thread (wall on two)")
    print(
        f"{'mixer':<20}{'width':>6}{'length':>8}{'slicekit':>18}  others, and how many times slower"
    )


def print_row(row: MixerRow) -> None:
    """A mixer at one width and length."""
    beside = [_beside(row, who) for who in row.times.processor if who != OURS]
    beside += [f"{who}: {why}" for who, why in row.absent.items()]
    ours = _time(row, OURS)
    print(f"{row.name:<20}{row.width:>6}{row.length:>8}{ours:>18}  {'; '.join(beside)}", flush=True)


def _time(row: MixerRow, who: str) -> str:
    wall = row.times.wall.get(who)
    shown = "" if wall is None else f" ({1e6 * wall / row.tokens:.1f})"
    return f"{row.microseconds(who):.1f}{shown}"


def _beside(row: MixerRow, who: str) -> str:
    ratio, _ = row.times.ratio(who, OURS)
    return f"{who} {_time(row, who)}, {ratio:.1f}x"


def print_verdict(rows: Iterable[MixerRow]) -> None:
    """In how many pairs slicekit is the faster one."""
    ratios = [
        (row.times.ratio(who, OURS)[0], f"{row.name} and {who} at {row.width} x {row.length}")
        for row in rows
        for who in row.times.processor
        if who not in (OURS, "torch")
    ]
    if ratios:
        faster = sum(ratio > 1 for ratio, _ in ratios)
        least, which = min(ratios)
        print(f"faster in {faster} of {len(ratios)} pairs; least {least:.2f}x: {which}", flush=True)


def as_data(rows: Iterable[MixerRow]) -> list[dict[str, Any]]:
    """The table, times in seconds of a run."""
    return [
        {
            "mixer": row.name,
            "width": row.width,
            "length": row.length,
            "tokens": row.tokens,
            "processor": row.times.processor,
            "wall": row.times.wall,
            "absent": row.absent,
        }
        for row in rows
    ]
