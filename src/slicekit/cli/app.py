"""The commands and their options."""

import io
import json
import sys
import warnings
from collections.abc import Collection
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import slicekit
from slicekit.cli import doctor
from slicekit.cli import structures as comparison
from slicekit.cli.commands import COMMANDS
from slicekit.cli.data import data
from slicekit.cli.display import console
from slicekit.cli.errors import OneLineErrors
from slicekit.cli.study import study_command
from slicekit.cli.sweep import sweep_command

if TYPE_CHECKING:
    from slicekit.bench.problems import Shape


app = typer.Typer(
    name="slicekit",
    cls=OneLineErrors,
    rich_markup_mode=None,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def run() -> None:
    """Run the command line on `sys.argv`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Formulas have symbols that not every terminal's encoding knows.
            stream.reconfigure(errors="replace")
    warnings.formatwarning = lambda message, *_, **__: f"slicekit: {message}\n"
    app(prog_name="slicekit")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"slicekit {slicekit.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def slicekit_command(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Structured linear controlled differential equations (SLiCEs).

    \b
    Examples:
      slicekit train a5                          train the best model for a task
      slicekit evaluate runs/a5-orthogonal-slice-0 --lengths 20:5120
      slicekit runs                              list and compare what was trained
      slicekit models --task a5                  what can be trained, and how
      slicekit study a5-lengths --quick          one of the paper's experiments
      slicekit sweep rates.toml                  which settings are best, and what mattered
      slicekit data get EigenWorms               series of an archive, on disk
      slicekit structures                        compare the structures, as the paper's Table 1
      slicekit structures --dim 256 --block 8    ... at other sizes
      slicekit bench --quick                     how fast it is here, in three minutes
      slicekit doctor                            what is installed, and what is missing

    Every command has its own examples: slicekit train --help
    """
    if context.invoked_subcommand is None:
        print(context.get_help())


for _name, _command in (COMMANDS | {"study": study_command, "sweep": sweep_command}).items():
    app.command(_name)(_command)
app.add_typer(data, name="data")


@app.command("structures")
def structures_command(
    dim: Annotated[int, typer.Option(min=1, help="dh, the size of the state.")] = 128,
    channels: Annotated[
        int, typer.Option(min=1, help="dω, the number of channels of the path, time included.")
    ] = 33,
    block: Annotated[int, typer.Option(min=1, help="b, the size of a block.")] = 4,
    rank: Annotated[int, typer.Option(min=1, help="r, the rank of the low-rank part.")] = 4,
    density: Annotated[
        float | None,
        typer.Option(help="Share of the entries that a sparse matrix keeps; 0.1 if not given."),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(help="ε: a sparse matrix keeps dh^(1+ε) entries. Instead of --density."),
    ] = None,
    length: Annotated[int, typer.Option(min=1, help="n, the number of steps.")] = 1024,
    window: Annotated[
        int, typer.Option(min=1, help="s, the steps of a window of the Log-ODE method.")
    ] = 12,
    depth: Annotated[int, typer.Option(min=1, help="N, the depth of log-signatures.")] = 2,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the formulas, as a table in Markdown.")
    ] = False,
) -> None:
    """Compare the structures: the paper's Table 1, at the sizes you give.

    \b
    Examples:
      slicekit structures
      slicekit structures --dim 256 --channels 257 --block 16 --rank 2
      slicekit structures --dim 64 --epsilon 0.5 --length 100000 --window 16 --depth 3
      slicekit structures --json > structures.json

    Costs are multiplications. A structure that can't take a size keeps its row, with the reason.
    """
    if density is not None and epsilon is not None:
        raise typer.BadParameter("--density and --epsilon are two ways to say the same; give one")
    if density is None and epsilon is None:
        density = 0.1
    sizes = comparison.Sizes(dim, channels, block, rank, density, epsilon, length, window, depth)
    if markdown:
        print(comparison.as_markdown())
        return
    rows = comparison.compare(sizes)
    if as_json:
        print(json.dumps(comparison.as_data(sizes, rows), indent=2))
    else:
        comparison.show(sizes, rows, console())


class Section(StrEnum):
    """The parts of `slicekit bench`."""

    TARGETS = "targets"
    STRUCTURES = "structures"
    SCALING = "scaling"
    MIXERS = "mixers"
    JAX = "jax"


@app.command("bench")
def bench_command(
    section: Annotated[
        Section | None, typer.Argument(help="One of the tables; all of them by default.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer rounds and lines: three minutes.")
    ] = False,
    structures: Annotated[
        str | None, typer.Option(help="Rows of the table of structures, as in dense,dplr-4.")
    ] = None,
    shapes: Annotated[
        str | None,
        typer.Option(help="Its shapes, batch x length x dim, as in 32x256x128."),
    ] = None,
    mixers: Annotated[
        str | None, typer.Option(help="Rows of the table of mixers, as in mamba,deltanet.")
    ] = None,
    out: Annotated[
        Path, typer.Option(file_okay=False, help="Folder for results.json and the plots.")
    ] = Path("bench-results"),
    plots: Annotated[bool, typer.Option("--plots/--no-plots", help="Draw the figures.")] = True,
) -> None:
    """Measure how fast slicekit is here, beside other methods and the least that it could take.

    \b
    Examples:
      slicekit bench                             everything, an hour or so
      slicekit bench --quick
      slicekit bench structures --structures dense,dplr-4 --shapes 32x256x128
      slicekit bench scaling --out speed --no-plots
      slicekit bench mixers                      beside mambapy, xlstm and transformers
      slicekit bench jax                         slicekit.jax, the authors' way and diffrax

    Figures are ratios of processor times on one thread, in brackets of wall times on two.
    Contenders take turns, and the least time of each counts.
    """
    from slicekit.bench import command
    from slicekit.bench.mixers import CASES as MIXERS
    from slicekit.bench.problems import CASES

    sections = command.SECTIONS if section is None else (section.value,)
    choice = command.Choice(
        quick,
        sections,
        _named("--structures", structures, CASES),
        _shapes(shapes),
        out,
        plots,
        _named("--mixers", mixers, MIXERS),
    )
    results = command.run(choice)
    if results.faults:
        raise typer.Exit(1)


def _named(option: str, text: str | None, known: Collection[str]) -> tuple[str, ...]:
    """The rows of a table that were asked for, or all."""
    names = text.split(",") if text else list(known)
    for name in names:
        if name not in known:
            raise typer.BadParameter(f"{option} {name}: choose from {', '.join(known)}")
    return tuple(names)


def _shapes(text: str | None) -> tuple["Shape", ...]:
    from slicekit.bench.problems import Shape

    try:
        return tuple(Shape.parse(part) for part in text.split(",")) if text else ()
    except ValueError as error:
        raise typer.BadParameter(f"--shapes: {error}") from None


@app.command("doctor")
def doctor_command() -> None:
    """Show versions, devices, scans and extras, and how to install what is missing.

    \b
    Example:
      slicekit doctor
    """
    doctor.show(console())
