"""The table of targets: its verdicts, and what it holds."""

import math
from types import SimpleNamespace

import pytest

from slicekit import native
from slicekit.bench import contenders as who
from slicekit.bench import pieces, targets
from slicekit.bench.contenders import CHUNKED, NATIVE, NO_PEER, PEER_PARALLEL, PEER_RECURRENT
from slicekit.bench.problems import FIRST, Setting, Shape
from slicekit.bench.races import FLOOR, Entrant
from slicekit.bench.targets import PEER, RACES, Line, Ratio, Target, bend, race_lines
from slicekit.bench.timing import QUICK, Effort, Times

TINY = Setting("diagonal", Shape(2, 5, 16))
ONCE = Effort(1, 1, math.inf, math.inf)


@pytest.mark.parametrize(
    ("at_most", "value", "verdict"),
    [
        (True, 1.1, "met"),
        (True, 1.101, "short"),
        (False, 1.1, "met"),
        (False, 1.0, "short"),
        (True, math.nan, "short"),
        (True, None, "not measured"),
    ],
)
def test_verdicts(at_most: bool, value: float | None, verdict: str) -> None:
    assert Line(Target("speed", 1.1, at_most), value).verdict == verdict


@pytest.mark.parametrize(("isa", "limit"), [("baseline", 1.1), ("avx2", 1.1), ("avx512", 1.22)])
def test_a_bound_belongs_to_the_instruction_set_of_the_kernels(
    isa: str, limit: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "library", lambda: SimpleNamespace(isa=isa))
    target = Target("speed", 1.1, wide=1.22)
    assert target.limit == limit and target.sign == f"<= {limit}"
    assert Target("speed", 1.1).limit == 1.1
    assert Line(target, 1.2).verdict == ("met" if isa == "avx512" else "short")


def test_the_faster_mode_of_torch_slices_counts() -> None:
    ratio = Ratio(Target("x", 2, at_most=False), Entrant(TINY, PEER), Entrant(TINY, NATIVE))
    seconds = {NATIVE: 1.0, PEER_RECURRENT: 7.0, PEER_PARALLEL: 5.0}
    named = {str(Entrant(TINY, name)): value for name, value in seconds.items()}
    assert ratio.line(Times(named, named)).value == 5


def test_a_line_without_its_contender_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(who, "peer_installed", lambda: False)
    target = Target("x", 2, at_most=False)
    (line,) = race_lines((Ratio(target, Entrant(TINY, PEER), Entrant(TINY, CHUNKED)),), ONCE)
    assert line.value is None and line.note == NO_PEER


def test_a_quick_run_leaves_long_lines_out() -> None:
    over, under = Entrant(TINY, CHUNKED), Entrant(TINY, FLOOR)
    short, long = (Ratio(Target("x", 2), over, under, long=long) for long in (False, True))
    lines = race_lines((short, long), QUICK)
    assert lines[0].value is not None
    assert lines[1].value is None and lines[1].note == "full run only"


def test_every_race_has_a_line_for_every_target_and_no_line_twice() -> None:
    titles = [ratio.target.what for ratios in RACES for ratio in ratios]
    assert len(titles) == len(set(titles))
    quick = [ratio for ratios in RACES for ratio in ratios if not ratio.long]
    assert len(quick) > len(titles) / 2


def test_blocks_are_measured_at_three_shapes_and_at_nine_channels() -> None:
    settings = {ratio.over.setting for ratios in RACES for ratio in ratios}
    for block in (4, 8, 16):
        own = {x for x in settings if x.structure == f"block-diagonal-{block}" and x.flow is None}
        assert len({x.shape for x in own if not x.inputs} & set(targets.SHAPES)) == 3
        assert [x.shape for x in own if x.inputs == 9] == [FIRST]


def test_a_line_with_a_fixed_cost_is_straight_and_a_parabola_is_not() -> None:
    lengths = (1, 4, 16, 64, 256)
    assert bend({n: 7.0 + 3 * n for n in lengths}) == pytest.approx(1)
    assert bend({n: n + n**2 / 64 for n in lengths}) > 1.5
    assert bend({n: n * math.log2(1000 * n) for n in lengths}) > 1.1


def test_pieces_are_timed_by_name() -> None:
    count, times = pieces.exponential_times(4, Effort(1, 1, 0, 0, quick=True))
    assert count == 20_000 and times.processor.keys() == {"slicekit", "torch"}
    assert pieces.step_times(3, ONCE).wall.keys() == {"step", "linear"}
    assert pieces.position_times(2, 9, ONCE).wall.keys() == {"early", "late"}


def test_without_kernels_lines_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "available", lambda: False)
    ratio = Ratio(Target("x", 2), Entrant(TINY, NATIVE), Entrant(TINY, FLOOR))
    (line,) = race_lines((ratio,), ONCE)
    assert line.note == who.NO_KERNELS
