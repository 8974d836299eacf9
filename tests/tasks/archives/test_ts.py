"""The `.ts` reader gives what a file holds, or says in which line it is at odds with itself."""

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from slicekit.tasks.archives import ArchiveError, Series, read
from tests.tasks.archives.writers import quick, same, small_series, ts_text, write

NAN = float("nan")
HEAD = {
    "problemName": "Walks",
    "timeStamps": "false",
    "missing": "true",
    "univariate": "false",
    "dimensions": "2",
    "equalLength": "false",
    "classLabel": "true right left",
}
CASES = ("1.0,2.0,?:0.5,NaN,-5e-1:left", "3,4:1,2:right")


def text(*cases: str, without: tuple[str, ...] = (), **head: str) -> str:
    lines = [f"@{key} {x}" for key, x in (HEAD | head).items() if key not in without]
    return "\n".join(["# a comment", *lines, "@data", *(cases or CASES)])


def given_text(folder: Path, content: str | bytes) -> Series:
    return read(write(folder, "Walks_TRAIN.ts", content))


def fault(folder: Path, content: str | bytes) -> str:
    """The message about a file, without its path."""
    with pytest.raises(ArchiveError) as caught:
        given_text(folder, content)
    message = str(caught.value)
    assert message.startswith(f"{folder / 'Walks_TRAIN.ts'}, line ")
    return message.removeprefix(f"{folder / 'Walks_TRAIN.ts'}, ")


def test_a_file_by_hand(tmp_path: Path) -> None:
    found = given_text(tmp_path, text())
    assert found.name == "Walks" and found.classes == ("left", "right") and found.times is None
    assert found.lengths.tolist() == [3, 2] and found.answers.tolist() == [0, 1]
    expected = torch.tensor([[[1, 0.5], [2, NAN], [NAN, -0.5]], [[3, 1], [4, 2], [0, 0]]])
    torch.testing.assert_close(found.values, expected, equal_nan=True)


@quick
@given(small_series(), st.booleans())
def test_what_is_written_is_read(tmp_path: Path, series: Series, declare: bool) -> None:
    assert same(given_text(tmp_path, ts_text(series, declare=declare)), series)


def test_a_second_name_is_passed_over(tmp_path: Path) -> None:
    twice = text(problemName="Walks\n@problemName Paths")
    assert same(given_text(tmp_path, twice), given_text(tmp_path, text()))


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\n\n", " \n\t"])
@pytest.mark.parametrize("first", [b"", b"\xef\xbb\xbf"])
def test_ends_of_lines_and_a_byte_order_mark_make_no_difference(
    tmp_path: Path, ends: str, first: bytes
) -> None:
    changed = first + text().replace("\n", ends).encode()
    assert same(given_text(tmp_path, changed), given_text(tmp_path, text()))


def test_keywords_may_be_in_any_case(tmp_path: Path) -> None:
    shouted = text().replace("@problemName", "@PROBLEMNAME").replace("@classLabel", "@CLASSLABEL")
    assert same(
        given_text(tmp_path, shouted.replace("false", "False")), given_text(tmp_path, text())
    )


def test_comments_may_be_in_another_encoding(tmp_path: Path) -> None:
    found = given_text(tmp_path, "# for Zoë\n% and René\n".encode("latin-1") + text().encode())
    assert len(found) == 2


def test_words_of_other_tools_are_passed_over(tmp_path: Path) -> None:
    assert len(given_text(tmp_path, f"@license CC0\n{text()}")) == 2


def test_targets_are_real_numbers(tmp_path: Path) -> None:
    content = text("1:2:-2.5", "1:2:1e3", without=("classLabel",), targetLabel="true")
    found = given_text(tmp_path, content)
    assert found.classes == () and found.answers.tolist() == [-2.5, 1000]
    assert found.answers.dtype == torch.float32


def test_timestamps_of_channels_are_merged(tmp_path: Path) -> None:
    content = text("(0,1),(2.5,?):(1,7) , (2.5,8):left", "(5,1):(5,2):right", timeStamps="true")
    found = given_text(tmp_path, content)
    assert found.times is not None and found.times.tolist() == [0, 1, 2.5, 5]
    expected = torch.tensor([[[1, NAN], [NAN, 7], [NAN, 8]], [[1, 2], [0, 0], [0, 0]]])
    torch.testing.assert_close(found.values, expected, equal_nan=True)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "line 1: the file ends before its data; expected a line @data"),
        ("# nothing\n", "line 1: the file ends before its data; expected a line @data"),
        (
            text(*CASES).replace("@data\n", ""),
            "line 9: '1.0,2.0,?:0.5,NaN,-5e-1:left' before @data",
        ),
        ("\n".join(text().splitlines()[:9]), "line 9: the file ends without a case"),
        (text("1:2:left", "1:2:3:left"), "line 11: 3 channels; expected 2"),
        (text("1:2:left", "1:2"), "line 11: 1 channels; expected 2"),
        (
            text("1:2:left", "1:2:3:left", without=("dimensions",)),
            "line 10: 3 channels; expected 2",
        ),
        (text("1:2:left", "1,2,3"), "line 11: '1,2,3' without a colon"),
        (text("1,2:1:left"), "line 10: channel 2 has 1 values; expected 2, as channel 1 has"),
        (text("1,2:1,:left"), "line 10: '' at position 2 of channel 2; expected a number"),
        (text("1,2:1,x7:left"), "line 10: 'x7' at position 2 of channel 2; expected a number"),
        (text("1,2:1_0,2:left"), "line 10: '1_0' at position 1 of channel 2"),
        (text("1,2:1,-?:left"), "line 10: '-?' at position 2 of channel 2"),
        (text("1,2::left"), "line 10: channel 2 is empty"),
        (text("1,2:1,inf:left"), "line 10: inf at position 2 of channel 2"),
        (text("1,2:1,1e39:left"), "line 10: 1e+39 at position 2 of channel 2"),
        (text("1:2:up"), "line 10: class 'up'; expected one of right, left"),
        (text("1:2:"), "line 10: class ''"),
        (text("1:?:left", missing="false"), "line 10: a missing value, though"),
        (text("1:2:left", "1,2:2,3:left", equalLength="true"), "line 11: a series of length 2"),
        (
            text("1:2:left", equalLength="true", seriesLength="3"),
            "a series of length 1; expected 3",
        ),
        (
            text("1:2:left", seriesLength="0", equalLength="true"),
            "a series of length 1; expected 0",
        ),
        (text("1,2:2,3:left", seriesLength="1"), "a series of length 2; expected at most 1"),
        (text(univariate="true"), "line 6: @univariate true and @dimensions 2"),
        (text("1:2:left", univariate="true", without=("dimensions",)), "2 channels; expected 1"),
        (text(missing="maybe"), "line 4: @missing 'maybe'; expected true or false"),
        (text(dimensions="two"), "line 6: @dimensions 'two'; expected a whole number"),
        (text(dimensions="-2"), "line 6: @dimensions '-2'; expected a whole number"),
        (text(classLabel="true"), "line 8: @classLabel true without classes"),
        (text(classLabel="yes a b"), "line 8: @classLabel 'yes'; expected true or false"),
        (text(classLabel="true a b a"), "line 8: class 'a' twice"),
        (text(classLabel="false"), "line 8: series without answers"),
        (text(without=("classLabel",)), "line 8: series without answers"),
        (text(targetLabel="true"), "line 9: both kinds of answers"),
        (text(without=("classLabel",), targetLabel="true"), "line 10: 'left'"),
        (
            text("1:2:?", without=("classLabel",), targetLabel="true"),
            "line 10: '?'; expected a num",
        ),
        (text(dimensoins="2"), "line 9: unknown keyword '@dimensoins'; expected @dimensions"),
        (text() + "\n@missing true", "line 12: '@missing true' after @data; expected a case"),
        ("@missing true\n" + text(), "line 5: @missing for the second time; expected it only in"),
        (text("(0,1):(0,2):left"), "line 10: timestamps in brackets; expected plain values"),
        (text("1:2:left", timeStamps="true"), "line 10: '1'; expected pairs (time,value)"),
        (text("(0,1,2):(0,1):left", timeStamps="true"), "line 10: '(0,1,2)' at position 1"),
        (text("(1,1),(1,2):(0,1):left", timeStamps="true"), "line 10: timestamp 1 after 1"),
        (text("(?,1):(0,1):left", timeStamps="true"), "line 10: a missing timestamp"),
        (
            text("(2007-01-01 00:00:00,1.5):(0,1):left", timeStamps="true"),
            "line 10: the date '2007-01-01 00:00:00'; expected timestamps that are numbers",
        ),
    ],
)
def test_a_fault_is_told_with_its_line(tmp_path: Path, content: str, message: str) -> None:
    assert message in fault(tmp_path, content)


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    assert "line 10: byte 0xe9 is no UTF-8" in fault(tmp_path, text("1:2:é").encode("latin-1"))
    assert "line 10" in fault(tmp_path, text("1:2\0:left"))


def test_a_suffix_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"'.tx', did you mean '.ts'\? Choose from .ts, .arff, .npz"
    ):
        read(tmp_path / "Walks.tx")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "Walks.ts")
