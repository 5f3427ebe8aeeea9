"""Times of a policy: durations as people write them, and instants in a time zone.

A local time that a change of the clocks skips or repeats is read as the later of the two possible instants, so
it makes nobody late.
"""

from __future__ import annotations

import calendar
import datetime
import re
import zoneinfo
from typing import NamedTuple

_UNITS = {"week": 604_800, "day": 86_400, "hour": 3600, "minute": 60, "second": 1}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")
_LONGEST = datetime.timedelta(days=3660)
# Units of durations by the calendar, in months and days.
_WHOLE_UNITS = {"year": (12, 0), "month": (1, 0), "week": (0, 7), "day": (0, 1)}
_WHOLE_PART = re.compile(rf"(\d+)\s*({'|'.join(_WHOLE_UNITS)})s?\b")
_MAX_MONTHS = 1200


class Span(datetime.timedelta):
    """A duration that somebody wrote: `15 minutes`, `2 days 12 hours`."""


def read_span(text: str) -> Span:
    """Read a duration; raises ValueError with the reason if it cannot be read."""
    rest = text.strip().lower().replace(",", " ")
    parts = _PART.findall(rest)
    if not parts or _PART.sub("", rest).replace("and", "").strip():
        raise ValueError(f"{text!r} is not a duration")
    seconds = 0.0
    for amount, unit in parts:
        if unit.removesuffix("s") not in _UNITS:
            raise ValueError(f"{text!r} is not a duration: {unit!r} is not one of {units()}")
        seconds += float(amount) * _UNITS[unit.removesuffix("s")]
    if seconds > _LONGEST.total_seconds():
        raise ValueError(f"{text!r} is more than ten years")
    return Span(seconds=seconds)


def units() -> str:
    """Return the units of durations, as a list in words."""
    return ", ".join(f"{unit}s" for unit in _UNITS)


class Period(NamedTuple):
    """A duration by the calendar: `2 years`, `18 months`, `90 days`."""

    months: int
    days: int

    def after(self, time: datetime.datetime) -> datetime.datetime:
        """Return the time plus this duration; in a month that is too short, its last day.

        Times after the year 9999 become the last possible time.
        """
        years, month = divmod(time.month - 1 + self.months, 12)
        year = time.year + years
        if year > datetime.MAXYEAR:
            return datetime.datetime.max.replace(tzinfo=time.tzinfo)
        day = min(time.day, calendar.monthrange(year, month + 1)[1])
        try:
            return time.replace(year=year, month=month + 1, day=day) + datetime.timedelta(self.days)
        except OverflowError:
            return datetime.datetime.max.replace(tzinfo=time.tzinfo)


def read_period(text: str) -> Period:
    """Read a duration by the calendar; raises ValueError with the reason if it cannot be read."""
    rest = text.strip().lower().replace(",", " ")
    parts = _WHOLE_PART.findall(rest)
    if not parts or _WHOLE_PART.sub("", rest).replace("and", "").strip():
        raise ValueError(f"{text!r} is not a whole number of years, months, weeks or days")
    months = days = 0
    for amount, unit in parts:
        number, (in_months, in_days) = int(amount[:9]), _WHOLE_UNITS[unit]
        months, days = months + number * in_months, days + number * in_days
    if not months and not days:
        raise ValueError(f"{text!r} keeps nothing: one day is the shortest time")
    if months > _MAX_MONTHS or days > _MAX_MONTHS * 30:
        raise ValueError(f"{text!r} is more than a hundred years")
    return Period(months, days)


def span_words(span: datetime.timedelta) -> str:
    """Return a duration in its two largest units, rounded down: 1 day 3 hours."""
    rest, words = int(span.total_seconds()), []
    for unit, seconds in _UNITS.items():
        count, left = divmod(rest, seconds)
        # Skip weeks: lateness is easier to read in days.
        if count and unit != "week":
            words.append(f"{count} {unit}{'s' * (count != 1)}")
            rest = left
    return " ".join(words[:2]) or "less than a second"


def span_text(span: datetime.timedelta) -> str:
    """Return a duration exactly, in the notation of `read_span`: 1 day 3 hours 5 seconds."""
    rest, words = round(span.total_seconds(), 6), []
    for unit, seconds in _UNITS.items():
        count = rest if unit == "second" else rest // seconds
        if count:
            amount = f"{count:.6f}".rstrip("0").rstrip(".")
            words.append(f"{amount} {unit}{'s' * (count != 1)}")
            rest = round(rest - count * seconds, 6)
    return " ".join(words) or "0 seconds"


def read_zone(name: str) -> zoneinfo.ZoneInfo:
    """Return the time zone with this name; raises ValueError with similar names."""
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        from difflib import get_close_matches

        # Windows has no time zones of its own.
        if not zoneinfo.available_timezones():
            raise ValueError("no time zones are installed here: pip install tzdata.") from error
        names = {zone.lower(): zone for zone in zoneinfo.available_timezones()}
        # Most people know only the city of their zone.
        ends = [zone for zone in names.values() if zone.split("/")[-1].lower() == name.lower()]
        near = ends or [names[match] for match in get_close_matches(name.lower(), names, n=3)]
        advice = f"; did you mean {' or '.join(map(repr, near))}?" if near else "."
        raise ValueError(f"{name!r} is not a time zone{advice}") from error


def instant(time: datetime.datetime, zone: datetime.tzinfo | None) -> datetime.datetime:
    """Return the instant of a time in UTC; a time without an offset is in the `zone`."""
    if time.tzinfo is not None:
        return time.astimezone(datetime.UTC)
    assert zone is not None, "a local time without a zone is refused when the policy is read"
    return max(_instants(time, zone))


def oddity(time: datetime.datetime, zone: datetime.tzinfo | None) -> str:
    """Return a sentence on a local time that a change of the clocks skips or repeats, else empty."""
    if time.tzinfo is not None or zone is None:
        return ""
    before, after = _instants(time, zone)
    if before == after:
        return ""
    is_left_out = before > after
    problem = "does not exist" if is_left_out else "exists twice"
    reading = "it is read as" if is_left_out else "the later one is meant,"
    return (
        f"{time:%Y-%m-%d %H:%M} {problem}, since the clocks change: {reading} "
        f"{local(instant(time, zone), zone)}"
    )


def _instants(
    time: datetime.datetime, zone: datetime.tzinfo
) -> tuple[datetime.datetime, datetime.datetime]:
    """Return the instants of a local time with the offsets before and after a change of the clocks."""
    first, second = (time.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
    return first.astimezone(datetime.UTC), second.astimezone(datetime.UTC)


def extended(
    due: datetime.datetime, by: datetime.timedelta, zone: datetime.tzinfo | None
) -> datetime.datetime:
    """Return a later instant: whole days keep the local time of day, and the rest is elapsed time."""
    days, rest = datetime.timedelta(days=by.days), datetime.timedelta(seconds=by.seconds)
    if zone is None or not days:
        return due + by
    wall = due.astimezone(zone).replace(tzinfo=None) + days
    return instant(wall, zone) + rest


def submitted(text: str) -> datetime.datetime | None:
    """Return the instant of a `submitted_at` (in UTC); None if it is unknown."""
    try:
        time = datetime.datetime.fromisoformat(text)
        time = time if time.tzinfo is not None else time.replace(tzinfo=datetime.UTC)
        return time.astimezone(datetime.UTC)
    except (ValueError, OverflowError):
        return None


def local(time: datetime.datetime, zone: datetime.tzinfo | None) -> str:
    """Return an instant in the class's notation: 2026-10-12 23:59 CEST."""
    there = time.astimezone(zone or datetime.UTC)
    return f"{there:%Y-%m-%d %H:%M}{f':{there:%S}' if there.second else ''} {there:%Z}"


def moment(text: str, timezone: str = "") -> str:
    """Convert a time in ISO 8601 to the class's notation and time zone (else UTC); return other text as is."""
    time = submitted(text)
    return local(time, read_zone(timezone) if timezone else None) if time is not None else text
