"""Tasks of every kind, for the properties that all of them share."""

from collections.abc import Sequence

import torch
from hypothesis import settings

from slicekit import tasks
from slicekit.tasks import Batch, Group, Task

quick = settings(max_examples=20, deadline=None)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def same(one: Batch, other: Batch) -> bool:
    return all(
        torch.equal(getattr(one, name), getattr(other, name))
        for name in ("inputs", "targets", "supervised", "lengths")
    )


def quaternions() -> Group:
    """The eight quaternions ±1, ±i, ±j, ±k in this order, from their multiplication rules."""
    units = ["1", "i", "j", "k"]
    rules = {
        **{("1", unit): (1, unit) for unit in units},
        **{(unit, "1"): (1, unit) for unit in units},
        **{(unit, unit): (-1, "1") for unit in units[1:]},
        **{("i", "j"): (1, "k"), ("j", "k"): (1, "i"), ("k", "i"): (1, "j")},
        **{("j", "i"): (-1, "k"), ("k", "j"): (-1, "i"), ("i", "k"): (-1, "j")},
        ("1", "1"): (1, "1"),
    }
    elements = [(sign, unit) for unit in units for sign in (1, -1)]
    table = torch.empty(8, 8, dtype=torch.int64)
    for a, (sign, unit) in enumerate(elements):
        for b, (other_sign, other_unit) in enumerate(elements):
            rule_sign, rule_unit = rules[unit, other_unit]
            table[a, b] = elements.index((sign * other_sign * rule_sign, rule_unit))
    return Group(table, "quaternions")


def _changes(batch: int, lengths: tuple[int, int], generator: torch.Generator) -> Batch:
    """Whether each token differs from the one before it."""
    drawn = tasks.draw_lengths(batch, lengths, generator)
    inputs = torch.randint(3, (batch, lengths[1]), generator=generator)
    before = torch.nn.functional.pad(inputs[:, :-1], (1, 0))
    return Batch.every_position(inputs, (inputs != before).long(), drawn)


def _changes_oracle(tokens: Sequence[int]) -> list[int | None]:
    return [int(now != before) for before, now in zip([0, *tokens[:-1]], tokens, strict=True)]


TASKS: dict[str, Task] = {
    **{name: tasks.make(name) for name in tasks.TASKS if name not in ("a5-fixed", "areas")},
    "few letters": tasks.WordProblem("s5", letters=tasks.named_group("s5").generators),
    "table": tasks.WordProblem(quaternions()),
    "one letter": tasks.WordProblem(tasks.cyclic(3), letters=[1]),
    "cycle of 2": tasks.CycleNavigation(states=2),
    "modulo 2": tasks.ModularArithmetic(modulus=2),
    "modulo 12": tasks.ModularArithmetic(modulus=12),
    "function": tasks.from_function(
        _changes, vocabulary=3, outputs=2, name="function", oracle=_changes_oracle
    ),
}
"""Tasks of any length. Those of a fixed length, or of series, have tests of their own."""
