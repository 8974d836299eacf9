"""One run of a study: trained, tested and written down, or found finished on the disk.

A run lives in a folder as `slicekit.training.train` makes it. It is finished when its folder holds
evaluation.json, in the form that `slicekit evaluate` writes, with what the study needs in addition.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import nn

import slicekit
from slicekit import catalogue, files, machines, tasks
from slicekit.devices import find_device
from slicekit.studies import classifiers, measurements
from slicekit.studies.plans import Outcome, Plan, Test, Tested
from slicekit.tasks import Task
from slicekit.training import Diverged, Result, RunFolder, evaluate, read_run, train
from slicekit.training.evaluation import tally
from slicekit.training.seeds import derived_seed

RESULTS, LOOKED = "evaluation.json", "looked.json"
"""What came of a run, and when a test set of the archive was looked at."""

SEED = 0
"""Of the tests: all runs of a study take the same."""


def perform(plan: Plan, folder: Path, device: str | None = None) -> Outcome:
    """Do a run, or what is left of it.

    Args:
        plan: what to do.
        folder: of the run; one that was interrupted goes on from its last checkpoint.
        device: where; None is the CPU.

    Returns:
        What came of it, which is also written to the folder.

    Raises:
        ValueError: if the folder holds another run, or a damaged one.
        OSError: if a file can't be written.
    """
    known, earlier = machines.forget_peak(), None
    start, begun = time.process_time(), RunFolder(folder).last_checkpoint() is not None
    if plan.model in classifiers.NAMES:
        folder.mkdir(parents=True, exist_ok=True)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        looked = {"test set": plan.task, "classifier": plan.model, "at": now}
        files.write(folder / LOOKED, (json.dumps(looked) + "\n").encode())
        outcome = replace(classifiers.perform(plan, device), opened=now)
    elif plan.task in measurements.MEASUREMENTS:
        folder.mkdir(parents=True, exist_ok=True)
        outcome = measurements.perform(plan)
    elif plan.trial:
        outcome = _try(plan, folder, device)
    else:
        earlier = _earlier(plan, folder)
        outcome = _train(plan, folder, _other_tests(plan, earlier), device)
    told: dict[str, Any] = {
        "processor_seconds": None if begun else round(time.process_time() - start, 3),
        "memory": machines.peak() if known else None,
        "processor": machines.processor(),
        "version": slicekit.__version__,
    }
    if earlier is not None:  # all training was done then, and only tests are new
        told = {name: getattr(earlier, name) for name in told}
    outcome = replace(outcome, **told)
    write(outcome, folder)
    return outcome


def _earlier(plan: Plan, folder: Path) -> Outcome | None:
    """What came of the same run before."""
    path = folder / RESULTS
    outcome = read_outcome(path) if path.exists() else None
    if outcome is not None:
        _check_same(plan, outcome.plan, folder)
    return outcome


def _other_tests(plan: Plan, outcome: Outcome | None) -> Sequence[Tested]:
    """What a run was tested on before, beyond the tests of a plan."""
    tested = () if outcome is None else outcome.tested
    return [x for x in tested if Test(x.low, x.high, x.sequences) not in plan.tests]


def _made(plan: Plan) -> tuple[Task, nn.Module]:
    """The task and the model, untrained."""
    task = tasks.make(plan.task, **plan.options)
    model = catalogue.build(
        plan.model, task, recipe=plan.recipe, layers=plan.layers, seed=plan.settings.seed
    )
    return task, model


def _trained(plan: Plan, task: Task, model: nn.Module, folder: Path, place: torch.device) -> Result:
    return train(
        model,
        task,
        plan.settings,
        folder=folder,
        resume=True,
        device=place,
        describe=_describe(plan),
    )


def _try(plan: Plan, folder: Path, device: str | None) -> Outcome:
    """Train, and look at no test; numbers that are no longer finite are an outcome too."""
    task, model = _made(plan)
    parameters = sum(x.numel() for x in model.parameters())
    try:
        result = _trained(plan, task, model, folder, find_device(device))
    except Diverged as fault:
        run = read_run(folder)
        best = run.best or {"accuracy": None, "step": 0}
        ending = fault.step - 1, "diverged", best["accuracy"], best["step"], (), run.seconds
        return Outcome(plan, parameters, *ending)
    ending = result.steps, result.reason, result.best_accuracy, result.best_step, (), result.seconds
    return Outcome(plan, parameters, *ending)


def _train(plan: Plan, folder: Path, earlier: Sequence[Tested], device: str | None) -> Outcome:
    task, model = _made(plan)
    place = find_device(device)
    result = _trained(plan, task, model, folder, place)
    best = slicekit.load(RunFolder(folder).best, device=place)
    finite = task.batches("test") is not None
    if not finite:
        before = tuple(Test(x.low, x.high, x.sequences) for x in earlier)
        whole = replace(plan, tests=(*plan.tests, *before))
    else:
        whole, earlier = plan, ()
    return Outcome(
        plan=whole,
        parameters=sum(x.numel() for x in model.parameters()),
        steps=result.steps,
        reason=result.reason,
        best_accuracy=result.best_accuracy,
        best_step=result.best_step,
        tested=(*(_whole(best, task) if finite else _drawn(best, task, plan.tests)), *earlier),
        seconds=result.seconds,
    )


def _describe(plan: Plan) -> dict[str, Any]:
    """What config.toml tells besides the settings, so that all commands know the run."""
    told = {
        "task": plan.task,
        "model": plan.model,
        "recipe": plan.recipe,
        "layers": plan.layers,
        "task_options": plan.options or None,
    }
    return {name: x for name, x in told.items() if x is not None}


def _whole(model: nn.Module, task: Task) -> tuple[Tested, ...]:
    return tuple(
        Tested(task.test_lengths[0], x.length, x.sequences, x.overall, x.last)
        for x in evaluate(model, task)
    )


def _drawn(model: nn.Module, task: Task, tests: Sequence[Test]) -> tuple[Tested, ...]:
    return tuple(_tested(model, task, test) for test in tests)


def _tested(model: nn.Module, task: Task, test: Test) -> Tested:
    purpose = f"study, lengths {test.low} to {test.high}"
    generator = torch.Generator().manual_seed(derived_seed(SEED, purpose))
    batch = task.sample(test.sequences, (test.low, test.high), generator, "test")
    counted = tally(model, batch)
    overall, last = counted.right / counted.positions, counted.right_ends / counted.ends
    return Tested(test.low, test.high, test.sequences, overall, last)


def write(outcome: Outcome, folder: Path) -> None:
    """Write down what came of a run, in its folder.

    Raises:
        OSError: if the file can't be written.
    """
    scores = [
        {"length": x.low, "sequences": x.sequences, "overall": x.overall, "last": x.last}
        for x in outcome.tested
        if x.low == x.high
    ]
    data = {
        "task": outcome.plan.task,
        "model": RunFolder(folder).best.name if RunFolder(folder).best.exists() else None,
        "seed": SEED,
        "slicekit": slicekit.__version__,
        "torch": torch.__version__,
        "scores": scores,
        "study": outcome.as_dict(),
    }
    files.write(folder / RESULTS, (json.dumps(data, indent=2) + "\n").encode())


def finished(plan: Plan, folder: Path) -> Outcome | None:
    """What came of a run, if it is finished.

    Args:
        plan: what was to be done.
        folder: of the run.

    Returns:
        None if something is left to do, be it only to test the model on other lengths.

    Raises:
        ValueError: if the folder holds another run, or its results are damaged.
    """
    path = folder / RESULTS
    outcome = read_outcome(path) if path.exists() else None
    if outcome is None:
        return None
    _check_same(plan, outcome.plan, folder)
    return outcome if set(plan.tests) <= set(outcome.plan.tests) else None


def read_outcome(path: Path) -> Outcome | None:
    """What a run's results say of a study, None if they are not of one.

    Raises:
        ValueError: if the file is damaged.
    """
    try:
        stored = json.loads(path.read_bytes()).get("study")
        return None if stored is None else Outcome.from_dict(_opened(path.parent) | stored)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(
            f"{path} is damaged: {error}. Nothing was changed; remove it to test the model again"
        ) from error


def _opened(folder: Path) -> dict[str, Any]:
    """When the test set of the archive was opened, of a run whose results do not tell."""
    path = folder / LOOKED
    return {"opened": json.loads(path.read_bytes())["at"]} if path.exists() else {}


def _check_same(wanted: Plan, done: Plan, folder: Path) -> None:
    """Raise unless both train the same."""
    asked, had = (
        {"task": x.task, "model": x.model, "recipe": x.recipe, "layers": x.layers, "trial": x.trial}
        | x.options
        | asdict(x.settings)
        for x in (wanted, done)
    )
    for name in asked.keys() | had.keys():
        if asked.get(name) != had.get(name):
            raise ValueError(
                f"{folder} holds a run with {name}={had.get(name)}, but {name}={asked.get(name)} "
                "is asked for; choose another folder for the study"
            )
