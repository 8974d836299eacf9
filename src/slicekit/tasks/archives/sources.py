"""Where a set can be had.

A source is one zip file, or the two files of a set. They are tried in order: a mirror of the user's
own, timeseriesclassification.com, and the set's record at Zenodo.
"""

import os
import re
from dataclasses import dataclass

from slicekit.suggestions import unknown
from slicekit.tasks.archives.catalogue import KNOWN

ARCHIVE = "https://www.timeseriesclassification.com/aeon-toolkit/{name}.zip"
RECORD = "https://zenodo.org/records/{record}/files/{name}_{split}.ts?download=1"
SPLITS = ("TRAIN", "TEST")


@dataclass(frozen=True)
class Source:
    """Where a set can be had.

    Args:
        urls: of one zip file, or of the `.ts` files of train and test.
    """

    urls: tuple[str, ...]

    @property
    def zipped(self) -> bool:
        """Whether it is one zip file."""
        return len(self.urls) == 1


def sources(name: str, mirror: str | None = None) -> list[Source]:
    """Where a set can be had, in the order to try.

    Args:
        name: of the set.
        mirror: an address under which NAME.zip stands, or one with `{name}` in it; by default that
            in $SLICEKIT_MIRROR, if any.

    Raises:
        ValueError: if the name is unknown and there is no mirror.

    >>> [source.urls[0].split("/")[2] for source in sources("BasicMotions", "https://here.org/ts")]
    ['here.org', 'www.timeseriesclassification.com', 'zenodo.org']
    """
    mirror = mirror or os.environ.get("SLICEKIT_MIRROR")
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", name) or (name not in KNOWN and not mirror):
        raise unknown("set", name, KNOWN, ", or give a mirror that has it")
    places = []
    if mirror:
        address = mirror if "{name}" in mirror else f"{mirror.rstrip('/')}/{{name}}.zip"
        places.append(Source((address.replace("{name}", name),)))
    if name in KNOWN:
        record = KNOWN[name].record
        files = (RECORD.format(record=record, name=name, split=split) for split in SPLITS)
        places += [Source((ARCHIVE.format(name=name),)), Source(tuple(files))]
    return places
