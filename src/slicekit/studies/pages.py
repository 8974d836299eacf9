"""Pages whose tables and pictures are those on record, and no one's typing.

Between `<!-- results: NAME -->` and `<!-- end of results -->` a page holds what the record of the
study NAME gives, or with NAME/PART those of its runs whose names begin with PART.
`python -m slicekit.studies.pages` fills all pages of docs/ from results/, and makes the tables and
pictures beside the records anew, with paper.md, one page of all of them.
"""

import re
import sys
from pathlib import Path

from slicekit import files
from slicekit.studies.names import STUDIES, make
from slicekit.studies.paper_page import as_markdown, chapter_on_record
from slicekit.studies.records import Record, read_record

PAGE = "paper.md"
"""All that is on record, on one page."""

NEXT = "\n\n"
"""Between paragraphs."""

REGION = re.compile(
    r"(?<=<!-- results: )([a-z0-9-]+)(?:/([a-z]+))? -->\n(.*?)(?=<!-- end of results -->)", re.S
)


def filled(page: str, records: Path, link: str) -> str:
    """A page with every region made anew.

    Args:
        page: its text.
        records: the folder of the records.
        link: how the page reaches that folder.

    Raises:
        ValueError: if a region names no study, or one that nothing is on record of.
    """

    def made(region: re.Match[str]) -> str:
        name, part, _ = region.groups()
        asked = name if part is None else f"{name}/{part}"
        record = read_record(make(name), records)
        if record is not None and part is not None:
            record = record.of(part)
        if record is None or not record.outcomes:
            raise ValueError(f"a page asks for the results of {asked}, but {records} has none")
        picture = part is None and (records / f"{name}.png").exists()
        return f"{asked} -->\n{region_of(record, link, picture=picture)}"

    return REGION.sub(made, page)


def region_of(record: Record, link: str, *, picture: bool) -> str:
    """What a page says of a record: tables, picture, and how to repeat the runs."""
    study = record.study
    tables = study.short_tables(record.choice, record.outcomes)
    parts = []
    for table in tables:
        title = f"{table.title}:\n\n" if len(tables) > 1 else ""
        parts.append(f"{title}{table.as_markdown().split(NEXT, 1)[1]}{NEXT}")
    if picture:
        parts.append(f"![{study.summary}]({link}/{study.name}.png)\n\n")
    lines = "\n".join(record.commands)
    every = (
        f"Every run: [{study.name}.md]({link}/{study.name}.md). Made with {record.made_with}, by"
    )
    return "".join([*parts, every, f"\n\n```\n{lines}\n```\n"])


def fill(docs: Path, records: Path) -> list[Path]:
    """Fill all pages of a folder, and make tables and pictures of all records anew.

    Returns:
        The files that have changed.
    """
    changed = []
    for study in STUDIES.values():
        record = read_record(study, records)
        if record is not None:
            place = records / study.name
            before = _contents(place)
            record.write(records)
            after = _contents(place)
            changed += [path for path in after if before.get(path) != after[path]]
    path, text = records / PAGE, page_of(records)
    if not path.exists() or path.read_text() != text:
        files.write(path, text.encode())
        changed.append(path)
    for path in sorted(docs.glob("*.md")):
        text = path.read_text()
        new = filled(text, records, f"../{records.name}")
        if new != text:
            files.write(path, new.encode())
            changed.append(path)
    return changed


def page_of(records: Path) -> str:
    """One page of all that is on record, beside the paper."""
    chapters = []
    for study in STUDIES.values():
        record = read_record(study, records)
        chapters.append(chapter_on_record(study, () if record is None else record.outcomes))
    pictures = {name: path for name in STUDIES if (path := records / f"{name}.png").exists()}
    return as_markdown(chapters, pictures)


def _contents(place: Path) -> dict[Path, bytes]:
    paths = [place.with_suffix(suffix) for suffix in (".json", ".md", ".png")]
    return {path: path.read_bytes() for path in paths if path.exists()}


if __name__ == "__main__":
    docs, records = (Path(x) for x in (sys.argv[1:] or ["docs", "results"]))
    for path in fill(docs, records):
        print(path)
