"""The bars of a histogram."""

from __future__ import annotations

from grader.exports.report.overview import histogram


def test_shares_fall_into_ten_ranges_and_full_marks_into_the_last() -> None:
    chart = histogram([0.0, 0.09, 0.1, 0.29999, 0.3, 0.7, 0.9, 1.0])
    assert [bar.count for bar in chart.bars] == [2, 1, 1, 1, 0, 0, 0, 1, 0, 2]
    assert [bar.label for bar in chart.bars][::9] == ["0\N{EN DASH}9 %", "90\N{EN DASH}100 %"]


def test_a_share_on_a_border_falls_into_the_higher_range() -> None:
    for tenths in range(10):
        counts = [bar.count for bar in histogram([tenths / 10, 0.1 * tenths]).bars]
        assert counts[tenths] == 2, tenths


def test_bars_are_proportional_and_end_at_the_baseline() -> None:
    bars = histogram([0.05] * 4 + [0.55]).bars
    assert bars[0].height == 4 * bars[5].height > 0
    assert bars[1].height == 0
    assert all(bar.y + bar.height == histogram([]).baseline for bar in bars)


def test_an_empty_histogram_has_empty_bars() -> None:
    assert {bar.count for bar in histogram([]).bars} == {0}
