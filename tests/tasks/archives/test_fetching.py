"""A file comes whole or not at all, and is continued where it was cut off."""

from pathlib import Path

import pytest

from slicekit.tasks.archives.fetching import DownloadError, Patience, fetch
from tests.tasks.archives.server import HASTY, Site, serving

CONTENT = bytes(range(256)) * 4096
PATH = "/file.zip"
ONCE = Patience(timeout=5, attempts=1, pause=0)


def left(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_a_file_comes_whole_and_progress_only_grows(tmp_path: Path) -> None:
    told: list[tuple[int, int | None]] = []
    with serving(Site({PATH: CONTENT})) as site:
        fetch(site.url + PATH, tmp_path / "file", lambda *x: told.append(x), HASTY)
    assert (tmp_path / "file").read_bytes() == CONTENT and left(tmp_path) == ["file"]
    received = [x for x, _ in told]
    assert received == sorted(set(received)) and received[-1] == len(CONTENT) and len(told) > 2
    assert {total for _, total in told} == {len(CONTENT)}


def test_a_cut_connection_is_continued(tmp_path: Path) -> None:
    told: list[int] = []
    with serving(Site({PATH: CONTENT}, cuts=[1000, 70_000])) as site:
        fetch(site.url + PATH, tmp_path / "file", lambda x, _: told.append(x), HASTY)
        assert [asked for _, asked in site.asked] == [None, "bytes=1000-", "bytes=71000-"]
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert told == sorted(set(told))


def test_a_later_call_goes_on_with_the_part(tmp_path: Path) -> None:
    with serving(Site({PATH: CONTENT}, cuts=[5000])) as site:
        with pytest.raises(DownloadError, match="cut after 5000 of 1048576 bytes"):
            fetch(site.url + PATH, tmp_path / "file", None, ONCE)
        assert left(tmp_path) == ["file.part", "file.part.json"]
        fetch(site.url + PATH, tmp_path / "file", None, ONCE)
        assert site.asked[-1] == (PATH, "bytes=5000-")
    assert (tmp_path / "file").read_bytes() == CONTENT and left(tmp_path) == ["file"]


@pytest.mark.parametrize("etag", ['"one"', None])
def test_a_server_that_does_not_continue_is_asked_from_the_start(
    tmp_path: Path, etag: str | None
) -> None:
    told: list[int] = []
    with serving(Site({PATH: CONTENT}, ranges=False, etag=etag, cuts=[600_000])) as site:
        fetch(site.url + PATH, tmp_path / "file", lambda x, _: told.append(x), HASTY)
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert told == sorted(set(told))


@pytest.mark.parametrize("etag", ['"two"', None])
def test_a_file_that_changed_is_not_patched(tmp_path: Path, etag: str | None) -> None:
    other = CONTENT[::-1] + b"longer"
    with serving(Site({PATH: CONTENT}, etag='"one"' if etag else None, cuts=[5000])) as site:
        with pytest.raises(DownloadError):
            fetch(site.url + PATH, tmp_path / "file", None, ONCE)
        site.files, site.etag = {PATH: other}, etag
        fetch(site.url + PATH, tmp_path / "file", None, HASTY)
    assert (tmp_path / "file").read_bytes() == other


def test_a_part_from_another_address_is_not_used(tmp_path: Path) -> None:
    with serving(Site({PATH: CONTENT, "/other": b"other"}, cuts=[5000])) as site:
        with pytest.raises(DownloadError):
            fetch(site.url + PATH, tmp_path / "file", None, ONCE)
        fetch(site.url + "/other", tmp_path / "file", None, ONCE)
    assert (tmp_path / "file").read_bytes() == b"other"


@pytest.mark.parametrize("note", ["", "[]", "{}", "null"])
def test_a_part_of_unknown_origin_is_not_used(tmp_path: Path, note: str) -> None:
    (tmp_path / "file.part").write_bytes(b"nonsense")
    (tmp_path / "file.part.json").write_text(note)
    with serving(Site({PATH: CONTENT})) as site:
        fetch(site.url + PATH, tmp_path / "file", None, ONCE)
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_length_that_is_not_told_does_no_harm(tmp_path: Path) -> None:
    totals: set[int | None] = set()
    with serving(Site({PATH: CONTENT}, told_length=False)) as site:
        fetch(site.url + PATH, tmp_path / "file", lambda _, total: totals.add(total), ONCE)
    assert (tmp_path / "file").read_bytes() == CONTENT and totals == {None}


@pytest.mark.parametrize("told", [True, False])
def test_a_file_that_is_too_large_is_not_taken_nor_kept(tmp_path: Path, told: bool) -> None:
    with serving(Site({PATH: CONTENT}, told_length=told)) as site:
        with pytest.raises(DownloadError, match=r"file.zip: .* bytes.*; at most 300000 are taken"):
            fetch(site.url + PATH, tmp_path / "file", None, HASTY, largest=300_000)
        assert len(site.asked) == 1
    assert left(tmp_path) == []


def test_an_empty_file_is_a_file(tmp_path: Path) -> None:
    with serving(Site({PATH: b""})) as site:
        fetch(site.url + PATH, tmp_path / "file", None, ONCE)
    assert (tmp_path / "file").read_bytes() == b""


def test_passing_failures_are_tried_again_and_others_are_not(tmp_path: Path) -> None:
    with serving(Site({PATH: CONTENT}, failures=[503, 500])) as site:
        fetch(site.url + PATH, tmp_path / "file", None, HASTY)
        assert len(site.asked) == 3
    with serving(Site({})) as site:
        with pytest.raises(DownloadError, match=r"file.zip: the server says 404"):
            fetch(site.url + PATH, tmp_path / "file", None, HASTY)
        assert len(site.asked) == 1
    with (
        serving(Site({PATH: CONTENT}, failures=[503] * 3)) as site,
        pytest.raises(DownloadError, match="after 3 attempts"),
    ):
        fetch(site.url + PATH, tmp_path / "file", None, HASTY)
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_server_that_is_silent_is_given_up(tmp_path: Path) -> None:
    with (
        serving(Site({PATH: CONTENT}, delay=0.5)) as site,
        pytest.raises(DownloadError, match="timed out, after 2 attempts"),
    ):
        fetch(site.url + PATH, tmp_path / "file", None, Patience(0.05, 2, 0))
    assert left(tmp_path) == []


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    with serving(Site({})) as site:
        gone = site.url
    with pytest.raises(DownloadError, match=r"http://127.0.0.1.*refused"):
        fetch(gone + PATH, tmp_path / "file", None, ONCE)


@pytest.mark.parametrize("url", ["file:///etc/hosts", "ftp://here/x", "here.org/x", ""])
def test_only_the_web_is_asked(tmp_path: Path, url: str) -> None:
    with pytest.raises(DownloadError, match="expected an address that starts with http"):
        fetch(url, tmp_path / "file", None, ONCE)
