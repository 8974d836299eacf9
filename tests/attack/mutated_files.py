"""Files of every format with damage of every kind: the right data, or an error that names the file.

Models, estimators, checkpoints and npz files have digests or checksums, so that what is read must
be what was written. In texts another digit is another number: there, what is read must be whole.
"""

import json
import random
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import slicekit as sk
from slicekit.cli.configuration import read_run_config
from slicekit.estimators import Ridge, SliceClassifier
from slicekit.studies.one_run import RESULTS, read_outcome
from slicekit.studies.plans import Outcome, Plan, Test, Tested
from slicekit.tasks.archives import Series, read
from slicekit.training import Report, RunFolder, Settings
from slicekit.training.checkpoints import Checkpoint, read_checkpoint, write_checkpoint
from slicekit.training.folder import read_records
from tests.attack.guard import Guard
from tests.attack.runner import Attack, Size, Tally

CASES = 1000


@dataclass(frozen=True)
class Format:
    """A kind of file.

    Args:
        make: writes one into a folder, and returns its path.
        read: what slicekit reads from it.
        exact: whether it must be what was written.
    """

    make: Callable[[Path], Path]
    read: Callable[[Path], Any]
    exact: bool = True


def mutated(content: bytes, source: random.Random) -> bytes:
    """The same file after one or a few accidents."""
    damaged = bytearray(content)
    for _ in range(source.choice([1, 1, 1, 2, 5])):
        place = source.randrange(len(damaged)) if damaged else 0
        size = source.choice([1, 1, 4, 16, 512])
        kind = source.randrange(8)
        if kind in (0, 1) and damaged:
            damaged[place] ^= 1 << source.randrange(8)
        elif kind == 2:
            del damaged[place:]
        elif kind == 3:
            del damaged[place : place + size]
        elif kind == 4:
            damaged[place:place] = source.randbytes(size)
        elif kind == 5:
            damaged[place : place + size] = bytes(min(size, len(damaged) - place))
        elif kind == 6:
            damaged[place:place] = damaged[place : place + size]
        else:
            token = source.choice([b"9" * 30, b"-1", b"NaN", b"[" * 2000, b"\xff\xfe", b'"', b"\n"])
            damaged[place : place + source.choice([0, 1, 4])] = token
    return bytes(damaged)


def attack_on(kind: Format) -> Attack:
    """A thousand mutations of one file."""

    def attack(tally: Tally, size: Size) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = kind.make(Path(folder))
            whole, expected = path.read_bytes(), kind.read(path)

            def work(content: bytes) -> str | None:
                path.write_bytes(content)
                found = kind.read(path)
                return "other data" if kind.exact and not _same(found, expected) else None

            def clear(content: bytes, error: BaseException) -> bool:
                return isinstance(error, ValueError | OSError) and str(path) in str(error)

            with Guard(work, clear) as guard:
                for number, source in size.cases(CASES, least=20):
                    outcome = guard(mutated(whole, source))
                    tally.note(f"mutation {number}", outcome.wrong, bool(outcome.error))

    return attack


def _same(found: Any, expected: Any) -> bool:
    if isinstance(expected, Tensor):
        return found.dtype == expected.dtype and _same(found.numpy(), expected.numpy())
    if isinstance(expected, np.ndarray):
        return found.shape == expected.shape and found.tobytes() == expected.tobytes()
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(_same(found[k], expected[k]) for k in found)
    if isinstance(expected, list | tuple):
        return len(found) == len(expected) and all(map(_same, found, expected))
    return found == expected


def _make_model(folder: Path) -> Path:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"vocabulary": 5, "outputs": 2, "width": 4, "layers": 2}
    sk.save(
        sk.SequenceModel(mixer=lambda width: sk.SLiCE(width, sk.Sparse(4, 0.5)), **sizes),
        folder / "model.safetensors",
    )
    return folder / "model.safetensors"


def _read_model(path: Path) -> Any:
    model = sk.load(path)
    return repr(model), dict(model.state_dict()), model(torch.arange(5)[None]).detach()


SERIES = np.random.RandomState(0).randn(12, 2, 15)


def _make_estimator(folder: Path) -> Path:
    labels = np.array(["left", "right", "up"] * 4)
    fitted = SliceClassifier(solver=Ridge(groups=1), random_state=0).fit(SERIES, labels)
    fitted.save(folder / "estimator.safetensors")
    return folder / "estimator.safetensors"


def _read_estimator(path: Path) -> Any:
    fitted = SliceClassifier.load(path)
    return repr(fitted.get_params()), fitted.classes_, fitted.predict_proba(SERIES)


def _make_checkpoint(folder: Path) -> Path:
    tensors = {"model/a": torch.arange(12.0).view(3, 4), "optimiser/b": torch.arange(3)}
    return write_checkpoint(folder, Checkpoint(7, tensors, {"best": 0.5, "history": [1, 2]}))


def _read_checkpoint(path: Path) -> Any:
    found = read_checkpoint(path)
    return found.step, found.tensors, found.numbers


def _make_config(folder: Path) -> Path:
    described = {"task": "a5", "model": "bd-slice", "task_options": {"length": 20}}
    RunFolder(folder / "run").open(Settings(steps=10), described)
    return folder / "run" / "config.toml"


def _read_config(path: Path) -> Any:
    folder = RunFolder(path.parent)
    return read_run_config(folder), asdict(folder.stored_settings())


def _make_metrics(folder: Path) -> Path:
    reports = [Report(i, "train", 0.5**i, 0.5, 1e-3, 20, 1.5, 1e4) for i in range(8)]
    lines = [json.dumps(report.as_record()) for report in reports]
    (folder / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    return folder / "metrics.jsonl"


def _make_results(folder: Path) -> Path:
    plan = Plan("run", "a5", "bd-slice", Settings(steps=10), (Test(20, 20, 64),))
    outcome = Outcome(plan, 123, 10, "steps", 0.9, 7, (Tested(20, 20, 64, 0.9, 0.8),), 1.5)
    (folder / RESULTS).write_text(json.dumps({"task": "a5", "study": outcome.as_dict()}))
    return folder / RESULTS


def _make_npz(folder: Path) -> Path:
    values = np.random.RandomState(1).randn(4, 6, 2).astype(np.float32)
    np.savez(
        folder / "Walks.npz",
        X=values,
        y=np.array([0, 1, 1, 0]),
        len=np.array([6, 3, 2, 6]),
        t=np.arange(24.0).reshape(4, 6),
        classes=np.array(["a", "b"]),
    )
    return folder / "Walks.npz"


def _read_series(path: Path) -> Any:
    series: Series = read(path)
    return series.observations, series.lengths, series.answers, series.classes, series.times


def _make_ts(folder: Path) -> Path:
    head = "# walks\n@problemName Walks\n@timeStamps false\n@missing true\n@univariate false\n"
    head += "@dimensions 2\n@equalLength false\n@classLabel true left right\n@data\n"
    cases = ["1.0,2.0,?:0.5,0.5,0.5:left", "3.0,4.0:1.5,2.5e3:right"] * 10
    (folder / "Walks.ts").write_text(head + "\n".join(cases) + "\n")
    return folder / "Walks.ts"


def _make_timed_ts(folder: Path) -> Path:
    head = "@timeStamps true\n@univariate false\n@targetLabel true\n@data\n"
    cases = ["(0,1.5),(2.5,?):(1,7),(2.5,-3e-2):0.25", "(1,1):(2,2):-1"] * 10
    (folder / "Timed.ts").write_text(head + "\n".join(cases) + "\n")
    return folder / "Timed.ts"


def _make_arff(folder: Path) -> Path:
    head = "% walks\n@relation Walks\n@attribute walk relational\n  @attribute t0 numeric\n"
    head += "  @attribute t1 numeric\n@end walk\n@attribute side {left,'far right'}\n@data\n"
    cases = [r'"1.0,2.0\n0.5,?",left', r"'3,4\n5,6','far right'"] * 10
    (folder / "Walks.arff").write_text(head + "\n".join(cases) + "\n")
    return folder / "Walks.arff"


FORMATS = {
    "models": Format(_make_model, _read_model),
    "estimators": Format(_make_estimator, _read_estimator),
    "checkpoints": Format(_make_checkpoint, _read_checkpoint),
    "config.toml": Format(_make_config, _read_config, exact=False),
    "metrics": Format(_make_metrics, read_records, exact=False),
    "results": Format(_make_results, read_outcome, exact=False),
    "npz": Format(_make_npz, _read_series),
    "ts": Format(_make_ts, _read_series, exact=False),
    "timed ts": Format(_make_timed_ts, _read_series, exact=False),
    "arff": Format(_make_arff, _read_series, exact=False),
}
ATTACKS: dict[str, Attack] = {f"mutated {name}": attack_on(kind) for name, kind in FORMATS.items()}
