"""Small data files that once took gigabytes or minutes, and their relatives."""

import io
import tempfile
import zipfile
from pathlib import Path

import numpy as np

from slicekit.tasks.archives import read
from tests.attack.guard import Guard
from tests.attack.runner import Size, Tally

HEAD = (
    "@timeStamps {timed}\n@univariate true\n@equalLength false\n@classLabel true {names}\n@data\n"
)


def attack(tally: Tally, size: Size) -> None:
    """Each once: right data or a clear error, in seconds and megabytes."""
    with tempfile.TemporaryDirectory() as folder:

        def work(case: tuple[str, bytes]) -> None:
            name, content = case
            (Path(folder) / name).write_bytes(content)
            read(Path(folder) / name)

        def clear(case: tuple[str, bytes], error: BaseException) -> bool:
            return isinstance(error, ValueError | OSError) and case[0] in str(error)

        with Guard(work, clear) as guard:
            for what, name, content in _bombs():
                outcome = guard((name, content))
                tally.note(f"{what} ({len(content)} bytes)", outcome.wrong, bool(outcome.error))


def _bombs() -> list[tuple[str, str, bytes]]:
    letters = " ".join(f"c{i}" for i in range(60_000))
    plain, timed = HEAD.format(timed="false", names="a b"), HEAD.format(timed="true", names="a b")
    spaces = " " * 100_000
    relation = "@relation x\n@attribute t0 numeric\n@attribute y {}\n@data\n1.0,a\n"
    texts = [
        ("one long case", "b.ts", plain + "1," * 70_000 + "1:a\n" + "1:b\n" * 28_000),
        ("sixty thousand classes", "b.ts", HEAD.format(timed="false", names=letters) + "1:c1\n"),
        ("a class twice", "b.ts", HEAD.format(timed="false", names=letters + " c9") + "1:c1\n"),
        ("colons", "b.ts", timed + ":" * 100_000 + "\n"),
        ("colons in brackets", "b.ts", timed + "(1,2)" + ":" * 50_000 + ")" * 50_000 + ":a\n"),
        ("brackets", "b.ts", timed + "(" * 100_000 + ":a\n"),
        ("commas", "b.ts", plain + "," * 100_000 + ":a\n"),
        ("question marks", "b.ts", plain + "?," * 100_000 + "?:a\n"),
        ("digits", "b.ts", plain + "1" * 200_000 + ":a\n"),
        ("spaces", "b.ts", plain + spaces + "1," + spaces + ":a\n"),
        ("a late fault", "b.ts", plain + "1," * 100_000 + "x:a\n"),
        ("strange keywords", "b.ts", "".join(f"@datb{i}\n" for i in range(20_000)) + plain),
        ("a long keyword", "b.ts", "@" + "data" * 50_000 + "\n" + plain),
        (
            "channels with times of their own",
            "b.ts",
            "@timeStamps true\n@classLabel true a\n@data\n"
            + ":".join(f"({i},1)" for i in range(20_000))
            + ":a\n",
        ),
        ("spaces before a quote", "b.arff", relation.format("{a," + spaces + "'b'}")),
        ("spaces after a quote", "b.arff", relation.format("{a,'b'" + spaces + "'c'}")),
        ("an open quote", "b.arff", relation.format("{a,'" + spaces)),
        ("many classes", "b.arff", relation.format("{a," + ",".join(letters.split()) + "}")),
        ("a long name", "b.arff", "@relation x\n@attribute " + spaces + "'" + spaces + "\n"),
        (
            "quotes",
            "b.arff",
            "@relation x\n@attribute s relational\n@attribute t numeric\n@end s\n"
            "@attribute y {a}\n@data\n" + '"' * 100_000 + "\n",
        ),
    ]
    found = [(what, name, text.encode()) for what, name, text in texts]
    arrays = [
        ("an array that nobody reads", "b.npz", _npz(other=np.zeros(2**29, np.uint8))),
        ("an enormous array", "b.npz", _npz(X=np.zeros((2, 2**28, 1), np.uint8))),
        ("enormous names", "b.npz", _npz(classes=np.zeros(4, "<U10000000"))),
        ("an array that claims too much", "b.npz", _claiming()),
    ]
    return found + arrays


def _npz(**arrays: np.ndarray) -> bytes:
    made = io.BytesIO()
    given = {"X": np.ones((2, 3, 1)), "y": np.array([0, 1])} | arrays
    np.savez_compressed(made, **given)  # type: ignore[arg-type]
    return made.getvalue()


def _claiming() -> bytes:
    claim = b"{'descr': '<f8', 'fortran_order': False, 'shape': (2, 1000000000, 1), }\n"
    made = io.BytesIO(_npz())
    with zipfile.ZipFile(made, "a") as members:
        size = len(claim).to_bytes(2, "little")
        members.writestr("t.npy", b"\x93NUMPY\x01\x00" + size + claim + bytes(16))
    return made.getvalue()
