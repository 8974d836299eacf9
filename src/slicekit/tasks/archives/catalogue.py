"""The sets that are known by name: what they should hold, and where they can be had from."""

from dataclasses import dataclass


@dataclass(frozen=True)
class KnownSet:
    """A set of the UEA archive of multivariate time series classification, or one of its additions.

    Args:
        name: as the archive spells it.
        train: the number of cases to learn from.
        test: the number of cases to report.
        length: of its series, or the shortest and the longest.
        channels: of its series.
        classes: how many.
        record: its number at Zenodo.
    """

    name: str
    train: int
    test: int
    length: int | tuple[int, int]
    channels: int
    classes: int
    record: int

    @property
    def told_length(self) -> str:
        """The length in words.

        >>> KNOWN["JapaneseVowels"].told_length
        '7-29'
        """
        return str(self.length) if isinstance(self.length, int) else "-".join(map(str, self.length))


_SETS = (
    KnownSet("ArticularyWordRecognition", 275, 300, 144, 9, 25, 11204924),
    KnownSet("AtrialFibrillation", 15, 15, 640, 2, 3, 11206175),
    KnownSet("BasicMotions", 40, 40, 100, 6, 4, 11206179),
    KnownSet("CharacterTrajectories", 1422, 1436, (60, 180), 3, 20, 18723007),
    KnownSet("Cricket", 108, 72, 1197, 6, 12, 11206185),
    KnownSet("DuckDuckGeese", 50, 50, 270, 1345, 5, 11206189),
    KnownSet("ERing", 30, 270, 65, 4, 6, 11206210),
    KnownSet("EigenWorms", 128, 131, 17984, 6, 5, 11206196),
    KnownSet("Epilepsy", 137, 138, 206, 3, 4, 11206204),
    KnownSet("EthanolConcentration", 261, 263, 1751, 3, 4, 11206212),
    KnownSet("EyesOpenShut", 56, 42, 128, 14, 2, 18496872),
    KnownSet("FaceDetection", 5890, 3524, 62, 144, 2, 11206216),
    KnownSet("FingerMovements", 316, 100, 50, 28, 2, 11206220),
    KnownSet("HandMovementDirection", 160, 74, 400, 10, 4, 11206224),
    KnownSet("Handwriting", 150, 850, 152, 3, 26, 11206227),
    KnownSet("Heartbeat", 204, 205, 405, 61, 2, 11206229),
    KnownSet("InsectWingbeat", 25000, 25000, (2, 22), 200, 10, 11206234),
    KnownSet("JapaneseVowels", 270, 370, (7, 29), 12, 9, 18735628),
    KnownSet("LSST", 2459, 2466, 36, 6, 14, 11206243),
    KnownSet("Libras", 180, 180, 45, 2, 15, 11206239),
    KnownSet("MotorImagery", 278, 100, 3000, 64, 2, 11206246),
    KnownSet("NATOPS", 180, 180, 51, 24, 6, 11206248),
    KnownSet("PEMS-SF", 267, 173, 144, 963, 7, 11206252),
    KnownSet("PenDigits", 7494, 3498, 8, 2, 10, 11206259),
    KnownSet("PhonemeSpectra", 3315, 3353, 217, 11, 39, 11206261),
    KnownSet("RacketSports", 151, 152, 30, 6, 4, 11206263),
    KnownSet("SelfRegulationSCP1", 268, 293, 896, 6, 2, 11206265),
    KnownSet("SelfRegulationSCP2", 200, 180, 1152, 7, 2, 11206269),
    KnownSet("SpokenArabicDigits", 6599, 2199, (4, 93), 13, 10, 18734026),
    KnownSet("StandWalkJump", 12, 15, 2500, 4, 3, 11206278),
    KnownSet("UWaveGestureLibrary", 120, 320, 315, 3, 8, 11206282),
)

KNOWN = {known.name: known for known in _SETS}
"""By name."""
