"""Times of a policy: spans as people write them, and instants in a time zone.

A local time that a change of the clocks leaves out or brings twice is read as the later of the two instants
that it may be: it makes no one late.
"""

from __future__ import annotations

import datetime
import re
import zoneinfo

_UNITS = {"week": 604_800, "day": 86_400, "hour": 3600, "minute": 60, "second": 1}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")
_LONGEST = datetime.timedelta(days=3660)


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
            raise ValueError(f"{text!r} is not a duration: {unit!r} is none of {units()}")
        seconds += float(amount) * _UNITS[unit.removesuffix("s")]
    if seconds > _LONGEST.total_seconds():
        raise ValueError(f"{text!r} is more than ten years")
    return Span(seconds=seconds)


def units() -> str:
    """The units of a span in words."""
    return ", ".join(f"{unit}s" for unit in _UNITS)


def span_words(span: datetime.timedelta) -> str:
    """The span in its two greatest units, rounded down: 1 day 3 hours."""
    rest, words = int(span.total_seconds()), []
    for unit, seconds in _UNITS.items():
        count, left = divmod(rest, seconds)
        # Lateness is not counted in weeks.
        if count and unit != "week":
            words.append(f"{count} {unit}{'s' * (count != 1)}")
            rest = left
    return " ".join(words[:2]) or "less than a second"


def span_text(span: datetime.timedelta) -> str:
    """Return a span as `read_span` reads it, exactly: 1 day 3 hours 5 seconds."""
    rest, words = round(span.total_seconds(), 6), []
    for unit, seconds in _UNITS.items():
        count = rest if unit == "second" else rest // seconds
        if count:
            amount = f"{count:.6f}".rstrip("0").rstrip(".")
            words.append(f"{amount} {unit}{'s' * (count != 1)}")
            rest = round(rest - count * seconds, 6)
    return " ".join(words) or "0 seconds"


def read_zone(name: str) -> zoneinfo.ZoneInfo:
    """The time zone of this name; raises ValueError with those that are near."""
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        from difflib import get_close_matches

        # Windows has none of its own.
        if not zoneinfo.available_timezones():
            raise ValueError("no time zones are installed here: pip install tzdata.") from error
        names = {zone.lower(): zone for zone in zoneinfo.available_timezones()}
        # A city alone is what most people know of their zone.
        ends = [zone for zone in names.values() if zone.split("/")[-1].lower() == name.lower()]
        near = ends or [names[match] for match in get_close_matches(name.lower(), names, n=3)]
        advice = f"; did you mean {' or '.join(map(repr, near))}?" if near else "."
        raise ValueError(f"{name!r} is no time zone{advice}") from error


def instant(time: datetime.datetime, zone: datetime.tzinfo | None) -> datetime.datetime:
    """The instant of a time, in UTC; one without an offset is a local time of the zone."""
    if time.tzinfo is not None:
        return time.astimezone(datetime.UTC)
    assert zone is not None, "a local time without a zone is refused when the policy is read"
    return max(_instants(time, zone))


def oddity(time: datetime.datetime, zone: datetime.tzinfo | None) -> str:
    """How a local time is read that the clocks leave out or bring twice; empty for any other."""
    if time.tzinfo is not None or zone is None:
        return ""
    before, after = _instants(time, zone)
    if before == after:
        return ""
    is_left_out = before > after
    what = "does not exist" if is_left_out else "exists twice"
    how = "it is read as" if is_left_out else "the later one is meant,"
    return f"{time:%Y-%m-%d %H:%M} {what}, for the clocks change: {how} {local(instant(time, zone), zone)}"


def _instants(
    time: datetime.datetime, zone: datetime.tzinfo
) -> tuple[datetime.datetime, datetime.datetime]:
    """The instant by the offset before a change of the clocks, and by the one after it."""
    first, second = (time.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
    return first.astimezone(datetime.UTC), second.astimezone(datetime.UTC)


def extended(
    due: datetime.datetime, by: datetime.timedelta, zone: datetime.tzinfo | None
) -> datetime.datetime:
    """An instant put off: whole days by the calendar of the zone, so that the hour stays; the rest elapses."""
    days, rest = datetime.timedelta(days=by.days), datetime.timedelta(seconds=by.seconds)
    if zone is None or not days:
        return due + by
    wall = due.astimezone(zone).replace(tzinfo=None) + days
    return instant(wall, zone) + rest


def submitted(text: str) -> datetime.datetime | None:
    """The instant of `submitted_at`, which is in UTC; None where it is not known."""
    try:
        time = datetime.datetime.fromisoformat(text)
        time = time if time.tzinfo is not None else time.replace(tzinfo=datetime.UTC)
        return time.astimezone(datetime.UTC)
    except (ValueError, OverflowError):
        return None


def local(time: datetime.datetime, zone: datetime.tzinfo | None) -> str:
    """An instant as the class reads it: 2026-10-12 23:59 CEST."""
    there = time.astimezone(zone or datetime.UTC)
    return f"{there:%Y-%m-%d %H:%M}{f':{there:%S}' if there.second else ''} {there:%Z}"


def moment(text: str, timezone: str = "") -> str:
    """A time in ISO 8601 as the class reads it, in its time zone or else in UTC; other text stays as it is."""
    time = submitted(text)
    return local(time, read_zone(timezone) if timezone else None) if time is not None else text
