"""The command `slicekit sweep`: its options, its progress and what it prints at the end."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from slicekit import figures
from slicekit.cli import display, engines
from slicekit.cli.errors import one_line
from slicekit.cli.grids import INTERRUPTED, print_table, watcher
from slicekit.engines import Engine
from slicekit.sweeps import Found, Sweep, conduct_sweep, read_sweep, tables
from slicekit.sweeps.results import BEST, MARKDOWN, PICTURE, RESULTS


def sweep_command(
    file: Annotated[Path, typer.Argument(help="What to vary, a TOML file.", dir_okay=False)],
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the sweep; sweeps/<name of the file> by default."),
    ] = None,
    processes: engines.Processes = None,
    engine: engines.EngineName = "local",
    address: engines.Address = None,
    option: engines.Options = None,
    device: engines.Device = None,
) -> None:
    """Try settings and sizes, and see which are best and what mattered, by validation alone.

    \b
    Examples:
      slicekit sweep rates.toml
      slicekit sweep rates.toml --processes 2 --out sweeps/rates
      slicekit sweep rates.toml --engine dask --address tcp://10.0.0.1:8786

    \b
    A file, say rates.toml:
      task = "a5"
      model = "bd-slice"
      search = "random"                  # or "grid", or "tpe" by Optuna
      trials = 20
      [training]
      steps = 1000
      [space.training]
      rate = { low = 1e-4, high = 1e-2, log = true }
      [space.sizes]
      block = [2, 4, 8]

    It may be stopped at any time, and the same command goes on. More trials or seeds in the file
    add to what is there. The best trial is written as best.toml, for slicekit train --config.
    """
    with one_line("sweep"):
        sweep = read_sweep(file)
        where = engines.chosen(engine, processes, address, option)
        _run(sweep, out or Path("sweeps") / file.stem, where, device)


def _run(sweep: Sweep, folder: Path, engine: Engine, device: str | None) -> None:
    console = display.console()
    display.plain(console, f"sweep of {sweep.table['task']}, in {folder}")
    try:
        with watcher(console) as watch:
            swept = conduct_sweep(sweep, folder, watch=watch, device=device, engine=engine)
    except KeyboardInterrupt:
        display.plain(console, "interrupted; the same command again goes on from here")
        raise typer.Exit(INTERRUPTED) from None
    _show(sweep, swept, folder, console)
    if swept.standing.failures or swept.best is None:
        raise typer.Exit(1)


def _show(sweep: Sweep, swept: Found, folder: Path, console: Console) -> None:
    for table in tables(sweep, swept.trials):
        display.plain(console, "")
        print_table(table, console)
    for name, why in swept.standing.failures.items():
        display.plain(console, f"{name} failed: {why}")
    if not swept.written or swept.best is None:
        display.plain(console, "no trial came to a validation accuracy; nothing was written")
        return
    picture = f", {PICTURE}" if figures.available() else "; a picture needs slicekit[plot]"
    display.plain(console, f"written to {folder}: {RESULTS}, {MARKDOWN}, {BEST}{picture}")
    run = folder / "runs" / swept.best.plans[0].name
    display.plain(console, f"to test the best: {display.command('slicekit', 'evaluate', run)}")
