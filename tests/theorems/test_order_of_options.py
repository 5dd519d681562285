"""The lists of options of a theorem may be in any order."""

from attention_lab.theorems import HardGradients, Scaling


def test_sizes_and_temperatures_may_be_in_any_order() -> None:
    one, other = (Scaling(sizes=sizes, draws=300).run(1) for sizes in ((4, 64, 256), (256, 4, 64)))
    assert one.rows == other.rows and other.holds
    cold_first, warm_first = (
        HardGradients(repetitions=10000, samples=(1, 4), temperatures=temperatures).run(1)
        for temperatures in ((0.5, 2.0), (2.0, 0.5))
    )
    assert cold_first.rows == warm_first.rows and warm_first.holds
