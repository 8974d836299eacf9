"""The commands around training: their options, and what `--help` says about them."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from slicekit.cli import engines
from slicekit.cli.lengths import GRAMMAR
from slicekit.cli.settings import parse_value, with_settings

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print only the folder, at the end.")]
Trust = Annotated[
    bool,
    typer.Option("--trust", help="Run the code that a file names as its task, file.py:name say."),
]
TaskOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--task-option", metavar="KEY=VALUE", help="An argument of the task; may be repeated."
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Threads; by default one, or what OMP_NUM_THREADS says."),
]


class Kept(StrEnum):
    """Which of a run's models."""

    BEST = "best"
    LAST = "last"


@with_settings
def train_command(
    task: Annotated[
        str | None,
        typer.Argument(
            help="A name of `slicekit tasks`; or module:name or path/to/file.py:name, whose code "
            "is run."
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="A name of `slicekit models`, perhaps with sizes: bd-slice:dim=128,block=8; the "
            "task's best by default."
        ),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(help="fast, ours and the default, or paper, the published protocol."),
    ] = None,
    layers: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Number of blocks; the model's own by default."),
    ] = None,
    length: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Longest length to train on; for both ends, --lengths."
        ),
    ] = None,
    task_option: TaskOptions = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the run; runs/<task>-<model>-<seed> by default."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in --out FOLDER.")
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE.toml", help="Options from a file; those given here beat it."),
    ] = None,
    trust: Trust = False,
    device: engines.Device = None,
    threads: Threads = None,
    parallel: Annotated[
        str | None,
        typer.Option(
            metavar="data=N,sequence=N",
            help="What the processes of torchrun share out: batches, and parts of sequences.",
        ),
    ] = None,
    quiet: Quiet = False,
    *,
    training: dict[str, Any],
) -> None:
    """Train a model on a task: by default the best recipe for it.

    \b
    Examples:
      slicekit train a5                                    the main result, in a few minutes
      slicekit train parity --length 20 --stop-at 1
      slicekit train a5 --model bd-slice --recipe paper --seed 1 --out runs/paper
      slicekit train a5 --out runs/paper --resume          go on after a crash
      slicekit train --config runs/paper/config.toml --out runs/again
      slicekit train cycle-navigation --task-option states=7
      slicekit train parity --model mamba:width=512
      slicekit train my_task.py:MyTask --batch 64 --clip none
      slicekit train my_task.py:draw --task-option vocabulary=3 --task-option outputs=2
      slicekit train SelfRegulationSCP1 --task-option splits=legacy   series of an archive
      slicekit train a5 --device cuda
      torchrun --nproc-per-node 2 -m slicekit train a5
      torchrun --nproc-per-node 4 -m slicekit train a5 --parallel data=2,sequence=2

    A setting that is not given comes from --config, and else from the model's recipe for the task
    (see: slicekit models --task a5). The run's folder holds config.toml, which repeats the run,
    metrics.jsonl, checkpoints, best.safetensors and model.safetensors.
    A task file.py:name runs the code of that file, so one that --config names needs --trust.
    A configuration file has the options by their names, and the settings in a table:

    \b
      task = "a5"
      model = "orthogonal-slice"
      [training]
      steps = 3000
      lengths = [3, 40]
    """
    from slicekit.cli import train

    told = {
        "task": task,
        "model": model,
        "recipe": recipe,
        "layers": layers,
        "length": length,
        "out": None if out is None else str(out),
        "device": device,
        "threads": threads,
        "parallel": parallel,
        "resume": resume or None,
        "quiet": quiet or None,
        "task_options": _options(task_option),
        "training": training,
    }
    train.start({key: x for key, x in told.items() if x is not None}, config, trust)


def _options(pairs: list[str] | None) -> dict[str, Any]:
    pairs = pairs or []
    for pair in pairs:
        if "=" not in pair:
            raise typer.BadParameter(f"--task-option {pair}; expected KEY=VALUE, as in states=7")
    split = (pair.split("=", 1) for pair in pairs)
    return {key: parse_value(value) for key, value in split}


def resume_command(
    folder: Annotated[Path, typer.Argument(help="Folder of the run.")],
    task: Annotated[
        str | None,
        typer.Option(help="The run's own task.py:name, where it is now; its code is run."),
    ] = None,
    trust: Trust = False,
    device: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="cpu, cuda, cuda:1 or mps; by default as it was."),
    ] = None,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Go on with a run that was interrupted, to the same numbers as without the interruption.

    \b
    Examples:
      slicekit resume runs/a5-orthogonal-slice-0
      slicekit resume runs/a5-orthogonal-slice-0 --quiet
      slicekit resume runs/mine --task my_task.py:MyTask

    A run on a task file.py:name runs the code of that file: name it, or say --trust.
    """
    from slicekit.cli import train

    told = {"task": task, "device": device, "threads": threads, "quiet": quiet or None}
    train.go_on(folder, {key: x for key, x in told.items() if x is not None}, trust)


def evaluate_command(
    folder: Annotated[Path, typer.Argument(help="Folder of the run.")],
    lengths: Annotated[
        str | None, typer.Option(help=f"{GRAMMAR}. By default the task's test lengths.")
    ] = None,
    sequences: Annotated[
        int, typer.Option(min=1, metavar="N", help="How many of each length.")
    ] = 32,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Of the sequences.")] = 0,
    checkpoint: Annotated[
        Kept | None,
        typer.Option(
            help="Which model; by default that of the end if there is one, or the best, which is "
            "also what counts on a finite test set."
        ),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(help="Another task than the run's own; or that one, if it is a file.py:name."),
    ] = None,
    task_option: TaskOptions = None,
    trust: Trust = False,
    diagnose: Annotated[
        bool, typer.Option("--diagnose", help="Also tell how far the model can be trusted.")
    ] = False,
    as_json: Json = False,
    device: engines.Device = None,
    threads: Threads = None,
) -> None:
    """Measure a trained model at given lengths, over all positions and at the last.

    A task with a finite test set, as those of archives, is measured on all of it.

    \b
    Examples:
      slicekit evaluate runs/a5-orthogonal-slice-0 --lengths 20:5120
      slicekit evaluate runs/parity-projective-slice-0 --lengths 40:256:8 --sequences 256
      slicekit evaluate runs/a5-orthogonal-slice-0 --checkpoint best --json > scores.json
      slicekit evaluate runs/a5-orthogonal-slice-0 --diagnose
      slicekit evaluate runs/mine --task my_task.py:MyTask

    A run on a task file.py:name runs the code of that file: name it, or say --trust.
    Saves evaluation.json and plots/length-generalisation.png in the run's folder.
    """
    from slicekit.cli import evaluate

    wish = evaluate.Wish(
        folder=folder,
        lengths=lengths,
        sequences=sequences,
        seed=seed,
        kept=None if checkpoint is None else checkpoint.value,
        task=task,
        options=_options(task_option),
        trust=trust,
        diagnose=diagnose,
        as_json=as_json,
        device=device,
        threads=threads,
    )
    evaluate.run(wish)


def runs_command(
    root: Annotated[Path, typer.Argument(help="Where to look, folders in it included.")] = Path(
        "runs"
    ),
    as_json: Json = False,
) -> None:
    """List and compare runs.

    \b
    Examples:
      slicekit runs
      slicekit runs studies/lengths
      slicekit runs --json | jq '.[] | select(.best_accuracy > 0.99) | .folder'

    Best and last are validation accuracies. A run is finished (it made all its steps), stopped
    early (at --stop-at or by --patience), interrupted (or still going on), or damaged.
    """
    from slicekit.cli import runs

    runs.show(root, as_json)


def plot_command(
    folders: Annotated[list[Path], typer.Argument(metavar="FOLDER...", help="Folders of runs.")],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.png",
            help="The picture; by default in the run's plots/, or here if there are several runs.",
        ),
    ] = None,
    lengths: Annotated[
        bool,
        typer.Option("--lengths", help="Accuracy against length, of runs already evaluated."),
    ] = False,
) -> None:
    """Draw runs into one picture: loss and accuracy over their steps, or accuracy against length.

    \b
    Examples:
      slicekit plot runs/a5-orthogonal-slice-0
      slicekit plot runs/a5-* --out a5.png
      slicekit plot runs/a5-* --lengths --out lengths.png
    """
    from slicekit.cli import plot

    plot.plot(folders, out, lengths)


def models_command(
    task: Annotated[
        str | None, typer.Option(help="Also parameters and settings for this task.")
    ] = None,
    recipe: Annotated[
        str, typer.Option(help="Whose: fast, ours, or paper, the published protocol.")
    ] = "fast",
    task_option: TaskOptions = None,
    as_json: Json = False,
) -> None:
    """List the models that have names.

    \b
    Examples:
      slicekit models
      slicekit models --task a5
      slicekit models --task a5 --recipe paper
      slicekit models --task parity --json
    """
    from slicekit.cli import listings

    listings.show_models(task, _options(task_option), recipe, as_json)


def tasks_command(as_json: Json = False) -> None:
    """List the tasks that have names, with their vocabularies and lengths.

    \b
    Examples:
      slicekit tasks
      slicekit tasks --json
    """
    from slicekit.cli import listings

    listings.show_tasks(as_json)


COMMANDS = {
    "train": train_command,
    "evaluate": evaluate_command,
    "resume": resume_command,
    "runs": runs_command,
    "plot": plot_command,
    "models": models_command,
    "tasks": tasks_command,
}
"""By name, in the order to list them in."""
