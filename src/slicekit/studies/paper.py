"""The whole paper: all studies, one after the other, and one page of what they found."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from slicekit import figures, files
from slicekit.engines import Engine, Local
from slicekit.studies.budgets import Budget
from slicekit.studies.grid import GridWatcher
from slicekit.studies.names import STUDIES
from slicekit.studies.paper_page import Chapter, as_html, as_markdown
from slicekit.studies.plans import Choice, Outcome
from slicekit.studies.records import add_to_record, read_record, recorded
from slicekit.studies.results import gathered
from slicekit.studies.study import Study, conduct

NAME = "paper"
"""What all studies together are called on the command line."""

SUMMARY = "All of these in order, and one page of what they found beside the paper"
MARKDOWN, HTML = "paper.md", "paper.html"

Watching = Callable[[Study], AbstractContextManager[GridWatcher]]


@dataclass(frozen=True)
class Means:
    """Where and how long the studies are done.

    Args:
        engine: where; None is a process of this machine.
        device: of the machine that does a run; None is the CPU.
        budget: seconds for all of them; None is as long as they need.
        records: folder of results on record, which what is finished is added to; None keeps the
            page to what was found in the study's own folders.
        watch: who is told of each study.
    """

    engine: Engine | None = None
    device: str | None = None
    budget: float | None = None
    records: Path | None = None
    watch: Watching = lambda study: nullcontext(GridWatcher())


def conduct_paper(choice: Choice, folder: Path, means: Means) -> list[Chapter]:
    """Do all studies in order, and write paper.md and paper.html, a self-contained file.

    Each has a folder of its own in `folder`, and an equal share of the time that is left. The page
    is written after each study. A study that can't be done, as its data are not at hand, is named
    with the reason.

    Args:
        choice: what the user wants of all of them; a quick look takes few models of each.
        folder: for the page, and the folders of the studies below it.
        means: where and how long.

    Returns:
        A chapter for each study.

    Raises:
        InUse: if another process is doing one of the studies in the folder.
        Unreachable: if the engine's cluster does not answer, or does no more.
        OSError: if a file can't be written.
    """
    within, engine = Budget(means.budget), means.engine or Local()
    chapters: list[Chapter] = []
    for number, study in enumerate(STUDIES.values()):
        share = None if within.left is None else within.left / (len(STUDIES) - number)
        chapters.append(_chapter(study, choice, folder / study.name, means, engine, share))
        _write(chapters, folder)
    return chapters


def _chapter(
    study: Study, choice: Choice, folder: Path, means: Means, engine: Engine, budget: float | None
) -> Chapter:
    try:
        asked = study.glimpse(choice) if choice.quick else study.whole(choice)
        with means.watch(study) as watch:
            standing = conduct(
                study, asked, folder, watch=watch, device=means.device, engine=engine, budget=budget
            )
    except ValueError as error:
        record, absent = _on_record(study, means), study.absent(choice)
        return Chapter(study, record, absent=absent, fault=str(error))
    _, outcomes = gathered(study, asked, standing, folder)
    if outcomes and means.records is not None and not choice.quick:
        add_to_record(study, outcomes, means.records)
    return Chapter(
        study,
        _on_record(study, means) or tuple(outcomes),
        unfinished=tuple(standing.unfinished),
        failures=standing.failures,
        left=standing.seconds_left(),
        absent=study.absent(choice),
        quick=choice.quick,
    )


def _on_record(study: Study, means: Means) -> tuple[Outcome, ...]:
    record = None if means.records is None else read_record(study, means.records)
    return () if record is None else record.outcomes


def _write(chapters: Sequence[Chapter], folder: Path) -> None:
    """The page, with a picture of each chapter beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures: dict[str, Path] = {}
    for chapter in chapters:
        if chapter.outcomes and figures.available():
            record = recorded(chapter.study, chapter.outcomes)
            path = folder / f"{chapter.study.name}.png"
            chapter.study.plot(record.choice, record.outcomes, path)
            pictures[chapter.study.name] = path
    files.write(folder / MARKDOWN, as_markdown(chapters, pictures).encode())
    files.write(folder / HTML, as_html(chapters, pictures).encode())
