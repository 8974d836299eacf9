"""A set gets to the disk from the first source that has it, or nothing there changes."""

import hashlib
import io
import json
import stat
import zipfile
from pathlib import Path

import pytest

from slicekit.locks import InUse
from slicekit.tasks.archives import DownloadError, download, load
from slicekit.tasks.archives.downloading import changed
from slicekit.tasks.archives.sources import Source, sources
from tests.tasks.archives.server import HASTY, Site, serving

TS = "@classLabel true a b\n@data\n1,2:a\n3,4:b\n"


def zipped(members: dict[str, str] | None = None) -> bytes:
    """A zip file of these members; by default of a whole set, and files beside it."""
    made = io.BytesIO()
    whole = {
        "Walks_TRAIN.ts": TS,
        "Walks_TEST.ts": TS,
        "Walks.txt": "about",
        "Walks_TRAIN.arff": "",
    }
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in (whole if members is None else members).items():
            # With a date of its own, so that the same members are the same bytes whenever.
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return made.getvalue()


def site(content: bytes | None = None, **behaviour) -> Site:
    return Site({"/Walks.zip": zipped() if content is None else content}, **behaviour)


def get(where: Site, folder: Path, **options) -> Path:
    return download("Walks", folder, mirror=where.url, patience=HASTY, **options)


def left(folder: Path) -> list[str]:
    return sorted(str(x.relative_to(folder)) for x in folder.rglob("*") if x.is_file())


def test_a_set_comes_and_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "data"
    told: list[tuple[str, int]] = []
    with serving(site()) as there:
        found = get(there, folder, progress=lambda url, n, _: told.append((url, n)))
    assert found == folder / "Walks"
    assert left(folder) == ["Walks/Walks_TEST.ts", "Walks/Walks_TRAIN.ts", "Walks/source.json"]
    assert len(load("Walks", folder).train) == 2 and changed(found) == []
    assert told[-1] == (f"{there.url}/Walks.zip", len(zipped()))
    note = json.loads((found / "source.json").read_text())
    assert note["came"] == {f"{there.url}/Walks.zip": hashlib.sha256(zipped()).hexdigest()}


@pytest.mark.parametrize(
    "members",
    [
        {"Walks/Walks_TRAIN.ts": TS, "Walks/Walks_TEST.ts": TS},
        {"a/b/Walks_TRAIN.ts": TS, "Walks_TEST.ts": TS},
    ],
)
def test_folders_in_the_zip_file_make_no_difference(
    tmp_path: Path, members: dict[str, str]
) -> None:
    with serving(site(zipped(members))) as there:
        assert len(load("Walks", get(there, tmp_path).parent).train) == 2


def test_a_cut_connection_is_continued(tmp_path: Path) -> None:
    with serving(site(cuts=[100])) as there:
        get(there, tmp_path)
        assert [asked for _, asked in there.asked] == [None, "bytes=100-"]
    assert len(load("Walks", tmp_path).test) == 2


def test_a_later_call_goes_on_with_the_part(tmp_path: Path) -> None:
    with serving(site(cuts=[100, 20, 20])) as there:
        with pytest.raises(DownloadError, match="140 bytes are kept"):
            get(there, tmp_path)
        get(there, tmp_path)
        assert there.asked[-1] == ("/Walks.zip", "bytes=140-")
    assert len(load("Walks", tmp_path).test) == 2 and "Walks.zip.part" not in left(tmp_path)


def test_the_next_source_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(Site({})) as empty, serving(site()) as full:
        sites = [Source((f"{x.url}/Walks.zip",)) for x in (empty, full)]
        monkeypatch.setattr("slicekit.tasks.archives.downloading.sources", lambda *_: sites)
        download("Walks", tmp_path, patience=HASTY)
        assert len(empty.asked) == len(full.asked) == 1
    assert len(load("Walks", tmp_path).test) == 2


def test_two_text_files_are_a_source_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"/Walks_TRAIN.ts": TS.encode(), "/Walks_TEST.ts": TS.encode()}
    with serving(Site(files, cuts=[10])) as there:
        both = [Source(tuple(there.url + path for path in files))]
        monkeypatch.setattr("slicekit.tasks.archives.downloading.sources", lambda *_: both)
        download("Walks", tmp_path, patience=HASTY)
        assert left(tmp_path) == [
            "Walks/Walks_TEST.ts",
            "Walks/Walks_TRAIN.ts",
            "Walks/source.json",
        ]
        there.files["/Walks_TEST.ts"] = b"<html>gone</html>"
        with pytest.raises(DownloadError, match=r"Walks_TEST.ts: what came is no .ts file"):
            download("Walks", tmp_path / "other", patience=HASTY)
        with pytest.raises(DownloadError, match="could not be had"):
            download("Walks", tmp_path / "other", sha256="0" * 64, patience=HASTY)
    assert left(tmp_path / "other") == []


def test_all_reasons_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(Site({})) as one, serving(site(b"no zip")) as other:
        sites = [Source((f"{x.url}/Walks.zip",)) for x in (one, other)]
        monkeypatch.setattr("slicekit.tasks.archives.downloading.sources", lambda *_: sites)
        with pytest.raises(DownloadError, match=r"could not be had: .* 404 .*; .*damaged"):
            download("Walks", tmp_path, patience=HASTY)
    assert left(tmp_path) == []


def test_a_checksum_is_compared(tmp_path: Path) -> None:
    right = hashlib.sha256(zipped()).hexdigest()
    with serving(site()) as there:
        with pytest.raises(DownloadError, match=f"SHA-256 {right}; expected {'0' * 64}"):
            get(there, tmp_path, sha256="0" * 64)
        assert left(tmp_path) == []
        get(there, tmp_path, sha256=right.upper())
        with pytest.raises(ValueError, match="sha256='12'; expected 64 hexadecimal digits"):
            get(there, tmp_path, sha256="12")
    assert len(load("Walks", tmp_path).train) == 2


def member(name: str, mode: int = 0) -> bytes:
    made = io.BytesIO(zipped())
    with zipfile.ZipFile(made, "a") as archive:
        info = zipfile.ZipInfo(name)
        info.external_attr = mode << 16
        archive.writestr(info, "evil")
    return made.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (zipped()[:-30], "damaged"),
        (zipped()[:50] + bytes([zipped()[50] ^ 1]) + zipped()[51:], "damaged"),
        (b"<html>not found</html>", "damaged"),
        (b"", "damaged"),
        (zipped({"other.ts": TS}), "members other.ts; expected Walks_TRAIN.ts and Walks_TEST.ts"),
        (zipped({"Walks_TRAIN.ts": TS}), "expected Walks_TRAIN.ts and Walks_TEST.ts"),
        (zipped({}), "members nothing"),
        (member("../Walks_TRAIN.ts"), "'../Walks_TRAIN.ts': a link or a path out of the archive"),
        (member("a/../../evil"), "a link or a path out of the archive"),
        (member("/etc/evil"), "a link or a path out of the archive"),
        (member("..\\evil"), "a link or a path out of the archive"),
        (member("C:\\evil"), "a link or a path out of the archive"),
        (member("link", stat.S_IFLNK | 0o777), "a link or a path out of the archive"),
    ],
)
def test_a_bad_zip_file_is_named_and_nothing_is_replaced(
    tmp_path: Path, content: bytes, message: str
) -> None:
    folder = tmp_path / "data"
    with serving(site()) as there:
        get(there, folder)
        before = {name: (folder / name).read_bytes() for name in left(folder)}
        there.files["/Walks.zip"] = content
        with pytest.raises(DownloadError) as caught:
            get(there, folder)
    assert message in str(caught.value)
    assert {name: (folder / name).read_bytes() for name in left(folder)} == before
    assert [x.name for x in tmp_path.iterdir()] == ["data"]


def test_a_zip_file_that_holds_too_much_is_named(tmp_path: Path) -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for split in ("TRAIN", "TEST"):
            archive.writestr(f"Walks_{split}.ts", "#" * 5000)
    with (
        serving(site(made.getvalue())) as where,
        pytest.raises(DownloadError, match=r"10000 bytes of Walks inside; expected at most 1000"),
    ):
        get(where, tmp_path, largest=1000)
    assert left(tmp_path) == []


def test_other_contents_than_the_last_time_are_named(tmp_path: Path) -> None:
    other = zipped({"Walks_TRAIN.ts": TS, "Walks_TEST.ts": TS + "5,6:a\n"})
    with serving(site()) as there:
        get(there, tmp_path)
        get(there, tmp_path)
        there.files["/Walks.zip"] = other
        with pytest.raises(DownloadError, match=r"Walks_TEST.ts: what came now has .* is recorded"):
            get(there, tmp_path)
        assert len(load("Walks", tmp_path).test) == 2
        get(there, tmp_path, sha256=hashlib.sha256(other).hexdigest())
    assert len(load("Walks", tmp_path).test) == 3


def test_a_set_comes_to_a_folder_once_at_a_time(tmp_path: Path) -> None:
    with serving(site()) as there:

        def meanwhile(*_: object) -> None:
            with pytest.raises(InUse, match=r"data is in use: process \d+ .* is writing it"):
                get(there, tmp_path / "data")

        get(there, tmp_path / "data", progress=meanwhile)
        get(there, tmp_path / "data")  # the first has let go
    assert left(tmp_path) == [
        f"data/Walks/{x}" for x in ("Walks_TEST.ts", "Walks_TRAIN.ts", "source.json")
    ]


def test_files_that_changed_on_disk_are_told(tmp_path: Path) -> None:
    with serving(site()) as there:
        folder = get(there, tmp_path)
    (folder / "Walks_TEST.ts").write_text(TS + "5,6:a\n")
    (folder / "Walks_TRAIN.ts").unlink()
    assert changed(folder) == ["Walks_TEST.ts", "Walks_TRAIN.ts"]


def test_mirrors_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLICEKIT_MIRROR", raising=False)
    public = sources("EigenWorms")
    assert [source.zipped for source in public] == [True, False]
    assert public[1].urls[0].endswith("/11206196/files/EigenWorms_TRAIN.ts?download=1")
    monkeypatch.setenv("SLICEKIT_MIRROR", "https://here.org/all/")
    assert sources("EigenWorms") == [Source(("https://here.org/all/EigenWorms.zip",)), *public]
    named = sources("Walks", "https://here.org/{name}/latest.zip")
    assert named == [Source(("https://here.org/Walks/latest.zip",))]


@pytest.mark.parametrize("name", ["EigenWorm", "../EigenWorms", "", ".hidden", "a/b"])
def test_an_unknown_name_is_no_address(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="unknown set"):
        download(name, tmp_path / "data")
    if name != "EigenWorm":
        with pytest.raises(ValueError, match="unknown set"):
            download(name, tmp_path / "data", mirror="https://here.org")
    assert not (tmp_path / "data").exists()
