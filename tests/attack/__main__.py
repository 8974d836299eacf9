"""Do all attacks, print a table, and exit with 1 if anything failed: python -m tests.attack."""

import argparse
import sys
import warnings

import torch

from tests.attack import (
    caches,
    forks,
    full_disk,
    fuzz_layers,
    fuzz_propagate,
    fuzz_solve,
    hostile_headers,
    kills,
    mutated_files,
    small_bombs,
    stale_plans,
    threads,
    two_writers,
)
from tests.attack.runner import Attack, Size, run, spent, table

ATTACKS: dict[str, tuple[Attack, float]] = {
    "forks": (forks.attack, 0.03),
    "threads": (threads.attack, 0.03),
    "small bombs": (small_bombs.attack, 0.04),
    "hostile headers": (hostile_headers.attack, 0.15),
    **{name: (attack, 0.03) for name, attack in mutated_files.ATTACKS.items()},
    "fuzz of solve": (fuzz_solve.attack, 0.15),
    "fuzz of propagate": (fuzz_propagate.attack, 0.05),
    "fuzz of layers": (fuzz_layers.attack, 0.15),
    "stale plans": (stale_plans.attack, 0.03),
    "caches": (caches.attack, 0.02),
    "kills and signals": (kills.attack, 0.15),
    "full disk": (full_disk.attack, 0.04),
    "two writers": (two_writers.attack, 0.04),
}
"""Each with its share of the processor time; those that fork come first, before any threads."""

SECONDS, SHORT_SECONDS, SHORT_SHARE = 600, 60, 0.05


def main(arguments: list[str]) -> int:
    """Do what the command line says, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument("--short", action="store_true", help="about a minute instead of ten")
    parser.add_argument("--seed", type=int, default=0, help="of everything random (0)")
    parser.add_argument("--only", action="append", choices=ATTACKS, help="this attack; repeatable")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    seconds, share = (SHORT_SECONDS, SHORT_SHARE) if given.short else (SECONDS, 1.0)
    tallies = []
    for name, (attack, part) in ATTACKS.items():
        if given.only and name not in given.only:
            continue
        until = spent() + seconds * (1.0 if given.only else part)
        tallies.append(run(name, attack, Size(given.seed, share, until)))
        found = tallies[-1].failures
        print(f"{name}: {tallies[-1].tried} tried, {len(found)} failed", *found[:1], flush=True)
    print("\n" + table(tallies))
    return 1 if any(tally.failures for tally in tallies) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
