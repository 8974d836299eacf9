"""One page of all studies: every figure beside the paper's, how to repeat it, what is missing."""

import base64
import html
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from slicekit.studies.plans import Outcome, Plan
from slicekit.studies.records import Record, recorded
from slicekit.studies.study import Study
from slicekit.studies.tables import NOTHING, Table

TITLE = "The paper's tables and figures, as measured here"
QUICK = "A quick look, only to see that it works: few steps, few and short sequences. No results."

MANY = 40
"""More cells than this are not named one by one."""

STYLE = """
body { font: 15px/1.5 sans-serif; max-width: 75em; margin: 2em auto; padding: 0 1em; }
table { border-collapse: collapse; font-size: 13px; display: block; overflow-x: auto; }
th, td { border: 1px solid #ccc; padding: 2px 8px; text-align: left; white-space: nowrap; }
tr.paper { color: #666; }
img { max-width: 100%; }
pre { background: #f4f4f4; padding: .6em; overflow-x: auto; font-size: 12px; }
"""


@dataclass(frozen=True)
class Chapter:
    """What the page says of one study.

    Args:
        study: which one.
        outcomes: of all runs that it is made of.
        unfinished: runs that are wanted and missing.
        failures: why others failed, by name.
        left: seconds that the missing runs would take, None if no one knows.
        absent: data that the paper has, and that are not at hand.
        quick: whether this is a quick look.
        fault: why the study could not be done, None if it could.
    """

    study: Study
    outcomes: tuple[Outcome, ...]
    unfinished: tuple[Plan, ...] = ()
    failures: Mapping[str, str] = field(default_factory=dict)
    left: float | None = None
    absent: tuple[str, ...] = ()
    quick: bool = False
    fault: str | None = None

    @property
    def record(self) -> Record | None:
        """What came of its runs, in the order of its tables."""
        return recorded(self.study, self.outcomes) if self.outcomes else None

    @property
    def tables(self) -> list[Table]:
        """Those that the page has room for."""
        record = self.record
        return [] if record is None else self.study.page_tables(record.choice, record.outcomes)

    @property
    def place(self) -> str:
        """What of the paper it shows."""
        return self.study.of_paper or "beyond the paper"

    @property
    def missing(self) -> list[str]:
        """What is not there, and why, a line each."""
        lines = [] if self.fault is None else [f"Not done: {self.fault}."]
        if self.absent:
            lines.append(f"Not at hand (slicekit data get): {', '.join(self.absent)}.")
        names = missing_cells(self.unfinished, {x.plan.name for x in self.outcomes})
        if names:
            ahead = "" if self.left is None else f" (about {self.left / 3600:.1f} hours)"
            lines.append(f"Not run yet{ahead}: {', '.join(names)}.")
        return lines + [f"{name} failed: {why}" for name, why in self.failures.items()]


def missing_cells(plans: Sequence[Plan], known: set[str]) -> list[str]:
    """Names of runs, with all seeds of one together; of very many, how many of each model.

    Args:
        plans: those that are wanted.
        known: names of those that came from elsewhere.
    """
    missing = [plan for plan in plans if plan.name not in known]
    seeds: dict[str, list[str]] = {}
    for plan in missing:
        name = re.sub(r"/seed-\d+$", "", plan.name)
        seeds.setdefault(name, []).append(str(plan.settings.seed))
    if len(seeds) <= MANY:
        return [f"{name} (seed {' '.join(numbers)})" for name, numbers in seeds.items()]
    counts = Counter(plan.label for plan in missing)
    return [f"{name} ({count} runs)" for name, count in counts.items()]


def contents(chapters: Sequence[Chapter]) -> Table:
    """What of the paper is where, and how much of it is there."""
    rows = []
    for chapter in chapters:
        done = len(chapter.outcomes)
        known = {x.plan.name for x in chapter.outcomes}
        missing = len([x for x in chapter.unfinished if x.name not in known])
        missing += len(chapter.failures)
        told = f"{done} runs" + (f", {missing} missing" if missing else "")
        told = told if chapter.fault is None or done else "not done"
        rows.append((chapter.place, chapter.study.name, told))
    return Table("What is here", ("of the paper", "study", "on this page"), tuple(rows))


def chapter_on_record(study: Study, outcomes: tuple[Outcome, ...]) -> Chapter:
    """What the page says of what is on record, and of what the study wants besides."""
    known = {x.plan.name: x for x in outcomes}
    missing = tuple(plan for plan in study.known_plans(known) if plan.name not in known)
    fault = "it needs data, and nothing is on record" if study.needs_data and not known else None
    return Chapter(study, outcomes, unfinished=missing, fault=fault)


def as_markdown(chapters: Sequence[Chapter], pictures: Mapping[str, Path]) -> str:
    """The page, with links to pictures beside it.

    Args:
        chapters: of the studies.
        pictures: by the name of the study.
    """
    parts = [f"# {TITLE}", contents(chapters).as_markdown()]
    for chapter in chapters:
        study, record = chapter.study, chapter.record
        parts.append(f"## {study.summary}\n\n{_introduction(chapter)}")
        parts += [table.as_markdown() for table in chapter.tables]
        if study.name in pictures:
            parts.append(f"![{study.summary}]({pictures[study.name].name})")
        if record is not None:
            lines = "\n".join(record.commands)
            parts.append(f"Made with {record.made_with or NOTHING}, by\n\n```\n{lines}\n```")
        parts += chapter.missing
    return "\n\n".join(parts) + "\n"


def _introduction(chapter: Chapter) -> str:
    told = f"{chapter.place[0].upper()}{chapter.place[1:]}: `slicekit study {chapter.study.name}`."
    return f"{told} {QUICK}" if chapter.quick else told


def as_html(chapters: Sequence[Chapter], pictures: Mapping[str, Path]) -> str:
    """The page as one file, with its pictures inside.

    Args:
        chapters: of the studies.
        pictures: files of PNGs, by the name of the study.
    """
    parts = [f"<h1>{html.escape(TITLE)}</h1>", _table(contents(chapters))]
    for chapter in chapters:
        study, record = chapter.study, chapter.record
        told = re.sub("`(.*?)`", r"<code>\1</code>", html.escape(_introduction(chapter)))
        parts += [f"<h2>{html.escape(study.summary)}</h2>", f"<p>{told}</p>"]
        parts += [_table(table) for table in chapter.tables]
        if study.name in pictures:
            picture = base64.b64encode(pictures[study.name].read_bytes()).decode()
            parts.append(
                f'<img alt="{html.escape(study.name)}" src="data:image/png;base64,{picture}">'
            )
        if record is not None:
            lines = html.escape("\n".join(record.commands))
            made = html.escape(record.made_with or NOTHING)
            parts.append(f"<p>Made with {made}, by</p><pre>{lines}</pre>")
        parts += [f"<p>{html.escape(line)}</p>" for line in chapter.missing]
    head = f'<meta charset="utf-8"><title>{html.escape(TITLE)}</title><style>{STYLE}</style>'
    return "\n".join(
        ["<!doctype html>", f"<html><head>{head}</head><body>", *parts, "</body></html>\n"]
    )


def _table(table: Table) -> str:
    """A table; rows of the paper's own figures are grey."""
    head = "".join(f"<th>{html.escape(x)}</th>" for x in table.columns)
    rows = []
    for row in table.rows:
        kind = ' class="paper"' if row and row[0].startswith("paper: ") else ""
        rows.append(f"<tr{kind}>{''.join(f'<td>{html.escape(x)}</td>' for x in row)}</tr>")
    note = f"<p>{html.escape(table.note)}</p>" if table.note else ""
    title = f"<h3>{html.escape(table.title)}</h3>"
    return f"{title}<table><tr>{head}</tr>{''.join(rows)}</table>{note}"
