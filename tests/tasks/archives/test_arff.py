"""The `.arff` reader gives what a file holds, or says in which line it is at odds with itself."""

from pathlib import Path

import pytest
import torch
from hypothesis import given

from slicekit.tasks.archives import ArchiveError, Series, read
from tests.tasks.archives.writers import arff_text, quick, same, small_series, write

NAN = float("nan")
HEAD = """% a comment
@relation 'Some walks'
@attribute walk relational
  @attribute t0 numeric
  @attribute 't 1' REAL
@end walk
@attribute side {right, 'far left'}
@data
"""
FLAT = """@RELATION Walks
@ATTRIBUTE t0 numeric
@ATTRIBUTE t1 numeric
@ATTRIBUTE side {a,b}
@DATA
"""


def given_text(folder: Path, content: str | bytes) -> Series:
    return read(write(folder, "Walks_TRAIN.arff", content))


@quick
@given(small_series(timed=False))
def test_what_is_written_is_read(tmp_path: Path, series: Series) -> None:
    assert same(given_text(tmp_path, arff_text(series)), series)


def test_a_relational_file_by_hand(tmp_path: Path) -> None:
    cases = (r'"1,2\n?,4",right', r"'5,?\n6,?','far left'")
    found = given_text(tmp_path, HEAD + "\n".join(cases))
    assert found.name == "Some walks" and found.classes == ("far left", "right")
    assert found.answers.tolist() == [1, 0]
    # The second series is shorter: nothing was observed at its last position.
    assert found.lengths.tolist() == [2, 1]
    expected = torch.tensor([[[1, NAN], [2, 4]], [[5, 6], [0, 0]]])
    torch.testing.assert_close(found.values, expected, equal_nan=True)


def test_a_univariate_file_by_hand(tmp_path: Path) -> None:
    found = given_text(tmp_path, FLAT + "1,?,b\n3 , 4 , a\n")
    assert found.values.squeeze(2).tolist() == [[1, 0], [3, 4]]
    assert found.lengths.tolist() == [1, 2] and found.answers.tolist() == [1, 0]


def test_a_numeric_answer_is_regressed_on(tmp_path: Path) -> None:
    found = given_text(tmp_path, FLAT.replace("{a,b}", "numeric") + "1,2,-0.5\n")
    assert found.classes == () and found.answers.tolist() == [-0.5]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "line 1: the file ends before its data"),
        (HEAD, "line 8: the file ends without a case"),
        (HEAD.replace("@data\n", ""), "line 7: the file ends before its data"),
        (HEAD.replace("@end walk", ""), "line 7: an attribute of type"),
        (HEAD[: HEAD.index("@end")] + "@data", "line 3: a relational attribute without an end"),
        (HEAD.replace("numeric", "string"), "line 4: an attribute of type 'string'"),
        (HEAD.replace("{right", "{'far left'"), "line 8: classes"),
        (HEAD.replace("@relation", "relation"), "line 2: \"relation 'Some walks'\" before @data"),
        (HEAD + r'"1,2\n3",right', "line 9: channel 2 has 1 values; expected 2"),
        (HEAD + r'"1,2,3\n3,4,5",right', "line 9: a series of length 3; expected 2"),
        (HEAD + r'"1,2\n3,x",right', "line 9: 'x' at position 2 of channel 2"),
        (HEAD + r'"1,2\n3,4",up', "line 9: class 'up'; expected one of right, far left"),
        (HEAD + r'"1,2\n3,4"', "line 9: "),
        (HEAD + r'"1,2\n3,4,right', "line 9: "),
        (HEAD + '"1,2\\n3,4",right\n"1,2",right', "line 10: 1 channels; expected 2"),
        (FLAT + "1,2", "line 6: a series of length 1; expected 2"),
        (FLAT + "1,2,3,a", "line 6: a series of length 3; expected 2"),
        (FLAT + "{0 1, 1 2}", "line 6: a sparse case"),
        (FLAT.replace("t0 numeric", "t0"), "line 2: '@ATTRIBUTE t0'"),
    ],
)
def test_a_fault_is_told_with_its_line(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(ArchiveError) as caught:
        given_text(tmp_path, content)
    assert str(caught.value).startswith(f"{tmp_path / 'Walks_TRAIN.arff'}, {message}")
