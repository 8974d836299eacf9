"""The figures that slicekit must reach, line by line."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from slicekit import native
from slicekit.bench import eigenworms, halves, log_signatures
from slicekit.bench.contenders import (
    CHUNKED,
    KEPT,
    NATIVE,
    NO_KERNELS,
    PEERS,
    RECOMPUTED,
    TOKENS,
)
from slicekit.bench.memory import NotMeasured, Worker, allowance
from slicekit.bench.pieces import (
    exponential_times,
    position_times,
    projective_times,
    step_times,
    tiny_times,
)
from slicekit.bench.problems import FIRST, SECOND, SHAPES, THIRD, Problem, Setting, Shape
from slicekit.bench.races import FLOOR, Entrant, race
from slicekit.bench.scaling import BASE, LENGTHS, Curve, over_length
from slicekit.bench.timing import Effort, Times
from slicekit.flows import Euler, Exponential

PEER = "torch-slices, its faster mode"
MEMORY_THREADS = 2


@dataclass(frozen=True)
class Target:
    """What a figure must be.

    Attributes:
        what: the figure.
        bound: the least or the greatest value that meets it.
        at_most: whether smaller is better.
        wide: another bound for kernels of AVX-512, or None: there torch's products, and so the
            floor, gain more than what the kernels do beside them.
    """

    what: str
    bound: float
    at_most: bool = True
    wide: float | None = None

    @property
    def limit(self) -> float:
        """The bound that belongs to the kernels in use."""
        library = native.library()
        if self.wide is None or library is None or library.isa != "avx512":
            return self.bound
        return self.wide

    @property
    def sign(self) -> str:
        """As in a table."""
        return f"{'<=' if self.at_most else '>='} {self.limit:g}"


@dataclass(frozen=True)
class Line:
    """A target and what was measured.

    Attributes:
        value: the figure, None if it was not measured; of times, on one thread, by processor time.
        beside: of times, the same on two threads, by wall time.
        note: why it was not measured, or what else to know.
    """

    target: Target
    value: float | None = None
    beside: float | None = None
    note: str = ""

    @property
    def verdict(self) -> str:
        """Whether the target is met, as a word."""
        if self.value is None:
            return "not measured"
        met = (
            self.value <= self.target.limit
            if self.target.at_most
            else self.value >= self.target.limit
        )
        return "met" if met else "short"


@dataclass(frozen=True)
class Ratio:
    """A target that is one contender's time over another's.

    Attributes:
        target: what it must be.
        over: the contender above the line; of `PEER`, whichever mode is faster.
        under: the contender below.
        long: whether a quick run leaves it out.
    """

    target: Target
    over: Entrant
    under: Entrant
    long: bool = False

    @property
    def entrants(self) -> list[Entrant]:
        """All who must run."""
        both = (self.over, self.under)
        return [Entrant(x.setting, name) for x in both for name in _modes(x.contender)]

    def line(self, times: Times) -> Line:
        """The ratio, or why there is none."""
        over = [str(Entrant(self.over.setting, name)) for name in _modes(self.over.contender)]
        over = [name for name in over if name in times.processor]
        under = str(self.under)
        if not over or under not in times.processor:
            reasons = [x.obstacle for x in self.entrants if x.obstacle]
            return Line(self.target, note=reasons[0])
        fastest = min(over, key=lambda name: times.processor[name])
        return Line(self.target, *times.ratio(fastest, under))


def _modes(contender: str) -> tuple[str, ...]:
    return PEERS if contender == PEER else (contender,)


Race = tuple[Ratio, ...]
"""Ratios whose contenders take turns with each other."""


def race_lines(ratios: Race, effort: Effort) -> list[Line]:
    """Run a race."""
    wanted = [ratio for ratio in ratios if not (ratio.long and effort.quick)]
    times = race([x for ratio in wanted for x in ratio.entrants], effort) if wanted else None
    return [
        ratio.line(times) if times and ratio in wanted else Line(ratio.target, note="full run only")
        for ratio in ratios
    ]


def _ratio(
    what: str, setting: Setting, over: str, under: str, bound: float, at_most: bool = True
) -> Ratio:
    where = f"{what}, {setting.shape}"
    return Ratio(Target(where, bound, at_most), Entrant(setting, over), Entrant(setting, under))


def _over_floor(
    what: str,
    setting: Setting,
    bound: float,
    contender: str = NATIVE,
    wide: float | None = None,
) -> Ratio:
    ratio = _ratio(f"{what} / floor", setting, contender, FLOOR, bound)
    return replace(ratio, target=replace(ratio.target, wide=wide))


Bounds = tuple[float, float]
"""Of kept and of recomputed transitions."""


def _both(what: str, setting: Setting, bounds: Bounds, wide: Bounds | None = None) -> list[Ratio]:
    """Recomputed and kept over the floor; `wide` are the bounds of AVX-512, if others."""
    contenders = {"recomputed": RECOMPUTED, "kept": KEPT}
    return [
        _over_floor(f"{what}, {name}", setting, bounds[n], contender, wide and wide[n])
        for n, (name, contender) in zip((1, 0), contenders.items(), strict=True)
    ]


def _against_peer(what: str, setting: Setting, bound: float, contender: str = NATIVE) -> Ratio:
    return _ratio(f"torch-slices / {what}", setting, PEER, contender, bound, at_most=False)


PEER_BOUNDS: dict[tuple[int, Shape], float] = {
    (4, FIRST): 6.5,
    (8, FIRST): 3.5,
    (16, FIRST): 2.6,
    (4, SECOND): 1.6,
    (4, THIRD): 8.5,
}
CHUNKED_BOUNDS = {FIRST: 1.8, THIRD: 2.8}


def _blocks(block: int, shape: Shape) -> Race:
    """The lines about blocks at a shape."""
    name = f"block-diagonal b={block}"
    setting = Setting(f"block-diagonal-{block}", shape)
    wide = (1.05, 1.22) if block == 4 else None
    recomputed, kept = _both(name, setting, (0.95, 1.1), wide)
    small = block == 4 or shape == FIRST
    lines = [replace(recomputed, long=not small), replace(kept, long=block > 4)]
    if block == 4 and shape in CHUNKED_BOUNDS:
        lines.append(_over_floor(f"{name}, chunked", setting, CHUNKED_BOUNDS[shape], CHUNKED))
    if (block, shape) in PEER_BOUNDS:
        against = _against_peer(name, setting, PEER_BOUNDS[block, shape])
        lines.append(replace(against, long=shape == THIRD))
    if (block, shape) == (4, SECOND):
        lines.append(_against_peer(f"{name}, tokens", setting, 40, TOKENS))
    return tuple(lines)


def _nine_channels(block: int) -> Race:
    setting = Setting(f"block-diagonal-{block}", FIRST, inputs=9)
    return tuple(_both(f"block-diagonal b={block}, 9 channels", setting, (1.0, 1.0), (1.1, 1.0)))


SMALL_DENSE, DENSE = Setting("dense", Shape(32, 256, 32)), Setting("dense", Shape(4, 256, 128))
SPARSE = Setting("sparse-0.1", DENSE.shape)
LARGE = Setting("block-diagonal-4", Shape(8, 128, 512))


def _tokens(length: int) -> Race:
    setting = Setting("block-diagonal-4", Shape(256, length, 256))
    what = "block-diagonal b=4, per position / tokens"
    return (_ratio(what, setting, NATIVE, TOKENS, 25, at_most=False),)


def _exponential_tokens() -> Race:
    shape = Shape(256, 40, 256)
    exact, euler = (Setting("block-diagonal-4", shape, flow=f) for f in (Exponential(), Euler()))
    target = Target(f"tokens b=4, Exponential / Euler, {shape}", 1.05)
    return (Ratio(target, Entrant(exact, TOKENS), Entrant(euler, TOKENS)),)


def _sparse() -> Ratio:
    target = Target(f"dense / sparse 0.1, {DENSE.shape}", 1, at_most=False)
    return Ratio(target, Entrant(DENSE, NATIVE), Entrant(SPARSE, NATIVE))


def _joint(shape: Shape) -> Race:
    ratio = _over_floor("joint DPLR r=4", Setting("joint-dplr-4", shape), 1.3)
    return (replace(ratio, long=shape == THIRD),)


DIAGONAL, DIAGONAL_DENSE = Setting("diagonal", FIRST), Setting("diagonal-dense-16", FIRST)

RACES: tuple[Race, ...] = (
    *(_blocks(block, shape) for shape in SHAPES for block in (4, 8, 16)),
    *(_nine_channels(block) for block in (4, 8, 16)),
    (
        *_both("diagonal", DIAGONAL, (1.15, 1.2), (1.3, 1.35)),
        _against_peer("diagonal", DIAGONAL, 3),
    ),
    tuple(_both("dense", SMALL_DENSE, (1.1, 1.2))),
    (*_both("dense", DENSE, (1.1, 1.2)), _sparse()),
    tuple(_both("block-diagonal b=4", LARGE, (1.1, 1.2))),
    tuple(_both("diagonal-dense b=16", DIAGONAL_DENSE, (1.15, 1.2))),
    *(_joint(shape) for shape in (FIRST, THIRD)),
    (_over_floor("Walsh-Hadamard", Setting("walsh-hadamard", FIRST), 1.3),),
    (_over_floor("DPLR r=4", Setting("dplr-4", FIRST), 1.3),),
    *(_tokens(length) for length in (20, 40)),
    _exponential_tokens(),
)


def exponential_lines(effort: Effort) -> Iterator[Line]:
    """The exact exponential of blocks against torch.matrix_exp."""
    for block, bound in ((4, 30), (8, 15), (16, 10)):
        count, times = exponential_times(block, effort)
        what = f"torch.matrix_exp / exponential of {count} blocks, b={block}"
        yield Line(Target(what, bound, at_most=False), *times.ratio("torch", "slicekit"))


def memory_lines(worker: Worker) -> Iterator[Line]:
    """Peak memory of recomputing over what it may take."""
    blocks = [(f"block-diagonal b=4, {x}", Setting("block-diagonal-4", x)) for x in SHAPES]
    for what, setting in (*blocks, (f"sparse 0.1, {SPARSE.shape}, by its non-zeros", SPARSE)):
        yield _memory_line(Target(f"peak memory / allowance, {what}", 1), setting, worker)


def _memory_line(target: Target, setting: Setting, worker: Worker) -> Line:
    reason = Entrant(setting, RECOMPUTED).obstacle
    if reason:
        return Line(target, note=reason)
    try:
        peak = worker.peak(setting, RECOMPUTED, MEMORY_THREADS)
    except NotMeasured as error:
        return Line(target, note=str(error))
    allowed = allowance(Problem.of(setting), MEMORY_THREADS)
    return Line(target, peak / allowed, note=f"{peak / 2**20:.1f} MiB beyond the operands")


def growth_lines(effort: Effort, worker: Worker) -> Iterator[Line]:
    """How straight time and memory are over the length."""
    curve = over_length(effort, worker).get(RECOMPUTED, Curve())
    for what, costs in (("time", curve.processor), ("memory", curve.memory)):
        target = Target(f"growth of {what} from 1k to 256k / a straight line", 1.1)
        if costs.keys() != set(LENGTHS):
            yield Line(target, note="not at every length" if native.available() else NO_KERNELS)
            continue
        if not all(costs.values()):
            yield Line(target, note="too little to measure")
            continue
        base = costs[BASE] / BASE
        steps = ", ".join(f"{n // 1024}k {x / n / base:.2f}" for n, x in costs.items())
        yield Line(target, bend(costs), note=f"a step, relative to 4k: {steps}")


def bend(costs: Mapping[int, float]) -> float:
    """Greatest factor between costs and the line from the first to the last; 1 if straight.

    A fixed cost bends nothing, so it does not count as growth.
    """
    (first, low), *_, (last, high) = costs.items()
    slope = (high - low) / (last - first)
    line = {size: low + slope * (size - first) for size in costs}
    return max(max(cost / line[size], line[size] / cost) for size, cost in costs.items())


def step_lines(effort: Effort) -> Iterator[Line]:
    """`step` over one linear map, at a late position over an early one, and projective."""
    for channels in (32, 128):
        times = step_times(channels, effort)
        target = Target(f"step() of {channels} channels, dim 128, b=4 / one linear", 3)
        yield Line(target, *times.ratio("step", "linear"))
    early, late = 16, 4096
    times = position_times(early, late, effort)
    target = Target(f"step() at position {late} / at {early}", 1.1)
    yield Line(target, *times.ratio("late", "early"))
    for batch in (1, 32):
        times = projective_times(batch, effort)
        target = Target(f"step() of a projective layer, batch {batch} / of a plain one", 3)
        yield Line(target, *times.ratio("projective", "plain"))


def tiny_lines(effort: Effort) -> Iterator[Line]:
    """A layer whose time is that of calls, and not of numbers."""
    target = Target("a layer, B1 L8 d16, forward and backward / torch.nn.LSTM", 1)
    yield Line(target, *tiny_times(effort).ratio("SLiCE", "LSTM"))


def autocast_lines(effort: Effort) -> Iterator[Line]:
    """Half precision in memory, which may cost no time."""
    said = "bfloat16 under autocast / float32"
    for name, way, times in halves.races(effort):
        target = Target(f"a layer, {name}, {way.name}, {way.shape}: {said}", 1.0)
        yield Line(target, *times.ratio("bfloat16", "float32"))
    for shape in () if effort.quick else SHAPES[1:]:
        blocks = halves.STRUCTURES["blocks of 4"](shape.dim)
        times = halves.autocast_times(blocks, halves.WAYS[0], shape, effort)
        target = Target(f"a layer, blocks of 4, {shape}: {said}", 1.0)
        yield Line(target, *times.ratio("bfloat16", "float32"))


def log_signature_lines(effort: Effort) -> Iterator[Line]:
    """Log-signatures against other packages."""
    for problem, absent, times in log_signatures.races(effort):
        for peer in log_signatures.PEERS:
            target = Target(f"{peer} / {problem}", 1, at_most=False)
            if times is None or peer in absent:
                yield Line(target, note=absent[peer])
                continue
            ours = 1e3 * times.processor[log_signatures.OURS]
            note = f"{ours:.1f} ms, {peer} {1e3 * times.processor[peer]:.1f} ms of a processor"
            yield Line(target, *times.ratio(peer, log_signatures.OURS), note)


def training_lines(effort: Effort) -> Iterator[Line]:
    """What training must reach; that on A5 is not measured here."""
    what = "a training step on EigenWorms, BD-SLiCE b=4: the authors' JAX seconds, recorded / ours"
    times = eigenworms.step_times(effort)
    seconds, wall = times.processor["step"], times.wall["step"]
    note = (
        f"{seconds:.2f} s of a processor, {wall:.2f} s on two threads; "
        f"JAX {eigenworms.JAX_SECONDS} s, and {eigenworms.JAX_RECURRENT_SECONDS} s as a recurrence"
    )
    ratios = eigenworms.JAX_SECONDS / seconds, eigenworms.JAX_SECONDS / wall
    yield Line(Target(what, 10, at_most=False), *ratios, note)
    target = Target("seconds to 90% on A5, length 20, one layer", 60)
    yield Line(target, note="slicekit train (not measured here)")


Part = tuple[str, Callable[[], Iterator[Line] | list[Line]]]


def parts(effort: Effort, worker: Worker) -> list[Part]:
    """All lines in groups that are measured together, each with what it is about."""
    raced: list[Part] = [
        (ratios[0].target.what, partial(race_lines, ratios, effort)) for ratios in RACES
    ]
    return [
        *raced,
        ("exponentials", partial(exponential_lines, effort)),
        ("log-signatures", partial(log_signature_lines, effort)),
        ("step()", partial(step_lines, effort)),
        ("a tiny layer", partial(tiny_lines, effort)),
        ("half precision", partial(autocast_lines, effort)),
        ("memory", partial(memory_lines, worker)),
        ("growth over length", partial(growth_lines, effort, worker)),
        ("training", partial(training_lines, effort)),
    ]
