"""Spans, time zones, and the hours in which the clocks change."""

from __future__ import annotations

import datetime
import re
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.gradebook.policy import File
from grader.gradebook.policy_file import odd_times, read_policy
from grader.gradebook.times import (
    instant,
    local,
    oddity,
    read_period,
    read_span,
    read_zone,
    span_text,
    span_words,
)
from grader.results import StudentInfo

WARSAW = ZoneInfo("Europe/Warsaw")
ANN = StudentInfo(id="ann")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("15 minutes", 900),
        ("1 minute", 60),
        ("2 days 12 hours", 216_000),
        ("1.5 hours", 5400),
        ("1 week", 604_800),
        (" 2  Days and 1 hour ", 176_400),
        ("0 hours", 0),
    ],
)
def test_spans_as_people_write_them(text: str, seconds: int) -> None:
    assert read_span(text).total_seconds() == seconds


@pytest.mark.parametrize(
    "text", ["", "5", "day", "-1 day", "3 fortnights", "1 day x", "9999 weeks", "P1D"]
)
def test_other_spans_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a duration|ten years"):
        read_span(text)


@given(st.timedeltas(datetime.timedelta(), datetime.timedelta(days=3660)))
def test_a_span_survives_a_round_trip_through_text(span: datetime.timedelta) -> None:
    assert read_span(span_text(span)) == span


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.4, "less than a second"),
        (61, "1 minute 1 second"),
        (86_400, "1 day"),
        (86_400 * 9 + 3600 * 2 + 59, "9 days 2 hours"),
        (86_400 + 30, "1 day 30 seconds"),
    ],
)
def test_spans_in_words(seconds: float, words: str) -> None:
    assert span_words(datetime.timedelta(seconds=seconds)) == words


def test_a_city_is_known_by_its_name() -> None:
    with pytest.raises(ValueError, match="did you mean 'Europe/Warsaw'"):
        read_zone("warsaw")
    with pytest.raises(ValueError, match="not a time zone"):
        read_zone("../../etc/passwd")


def test_a_time_that_the_clocks_skip_is_moved_later() -> None:
    lost = datetime.datetime(2026, 3, 29, 2, 30)
    assert instant(lost, WARSAW) == datetime.datetime(2026, 3, 29, 1, 30, tzinfo=datetime.UTC)
    assert "does not exist" in oddity(lost, WARSAW)
    assert "2026-03-29 03:30 CEST" in oddity(lost, WARSAW)


def test_a_time_that_occurs_twice_is_the_later_one() -> None:
    double = datetime.datetime(2026, 10, 25, 2, 30)
    assert instant(double, WARSAW) == datetime.datetime(2026, 10, 25, 1, 30, tzinfo=datetime.UTC)
    assert "exists twice" in oddity(double, WARSAW)
    assert "2026-10-25 02:30 CET" in oddity(double, WARSAW)
    policy = read_policy('timezone = "Europe/Warsaw"\n[[due]]\nat = 2026-10-25T02:30:00')
    assert len(odd_times(policy)) == 1


@given(st.datetimes(datetime.datetime(2000, 1, 1), datetime.datetime(2040, 1, 1)))
def test_any_other_time_is_the_local_clock_time(time: datetime.datetime) -> None:
    if not oddity(time, WARSAW):
        assert instant(time, WARSAW).astimezone(WARSAW).replace(tzinfo=None) == time


@pytest.mark.parametrize(
    ("due", "handed_in", "points"),
    [
        # 25 October has 25 hours: 24 hours after 23:59 is 22:59 local time.
        ("2026-10-24T23:59:00", "2026-10-25T21:59:00Z", 9),
        ("2026-10-24T23:59:00", "2026-10-25T21:59:01Z", 8),
        # 29 March has 23 hours: 24 hours after 23:59 is 00:59 local time, a day later.
        ("2026-03-28T23:59:00", "2026-03-29T22:59:00Z", 9),
        ("2026-03-28T23:59:00", "2026-03-29T22:59:01Z", 8),
        ("2026-10-24T23:59:00+02:00", "2026-10-24T21:59:00Z", 10),
        ("2026-10-24T23:59:00+02:00", "2026-10-24T21:59:01Z", 9),
    ],
)
def test_a_day_late_is_24_hours_even_when_the_clocks_change(
    due: str, handed_in: str, points: float
) -> None:
    text = f'timezone = "Europe/Warsaw"\n[late]\nper_day = 10\n[[due]]\nat = {due}'
    file = File(1, handed_in, False, 10.0)
    assert read_policy(text).counted(ANN, "relu", 10, [file]).points == points


@pytest.mark.parametrize(
    ("due", "by", "until"),
    [
        ("2026-10-24T23:59:00", "1 day", "2026-10-25 23:59 CET"),
        ("2026-10-24T23:59:00", "23 hours", "2026-10-25 21:59 CET"),
        ("2026-03-28T23:59:00", "2 days", "2026-03-30 23:59 CEST"),
        ("2026-03-28T02:30:00", "1 day", "2026-03-29 03:30 CEST"),
        ("2026-10-24T02:30:00", "1 day", "2026-10-25 02:30 CET"),
    ],
)
def test_days_of_an_extension_are_calendar_days(due: str, by: str, until: str) -> None:
    text = f'timezone = "Europe/Warsaw"\n[[due]]\nat = {due}\n[[extension]]\nstudent = "ann"\nby = "{by}"'
    deadline = read_policy(text).deadline(ANN, "relu")
    assert deadline is not None
    assert local(deadline.until, WARSAW) == until


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("2 years", "2026-02-28"),
        ("1 year and 6 months", "2025-08-29"),
        ("1 month", "2024-03-29"),
        ("12 Months", "2025-02-28"),
        ("2 weeks, 1 day", "2024-03-15"),
        ("100 years", "2124-02-29"),
    ],
)
def test_a_period_follows_the_calendar(text: str, after: str) -> None:
    leap_day = datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.UTC)
    assert f"{read_period(text).after(leap_day):%Y-%m-%d %H}" == f"{after} 12"


def test_a_period_is_cut_off_at_the_last_year() -> None:
    last = datetime.datetime(9950, 1, 31, tzinfo=datetime.UTC)
    assert read_period("100 years").after(last).year == 9999
    assert read_period("36000 days").after(last).year == 9999


@pytest.mark.parametrize(
    "text", ["", "2", "years", "2.5 years", "2 moons", "0 days", "101 years", "3 hours", "-1 year"]
)
def test_other_periods_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(text))):
        read_period(text)
