"""Deep Linking: a teacher chooses, in the platform, the page that a new link opens.

The server signs an answer for each choice, and the teacher's browser posts one of them to the platform.
Choosing needs no session here: the page shows nothing that students may not read, so no exercise before its
assignment opens.
"""

from __future__ import annotations

import secrets
import urllib.parse
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from grader.course.manifest import Course, Exercise
from grader.exports.push.lti import TAG
from grader.gradebook.tool_key import ToolKey
from grader.serve.gate import Gate
from grader.serve.sign_in.launch import DEEP_LINKING, LAUNCH, LTI, VERSION, Launch, Selection

# The beginning of the address of an assignment's page; the assignment's id follows.
ASSIGNMENT = "/assignment/"


class Choice(NamedTuple):
    """A page that a link can open: its `title`, and the signed answer that chooses it."""

    title: str
    answer: str


def choices(
    launch: Launch,
    selection: Selection,
    course: Course,
    practice: Collection[str],
    key: ToolKey,
    address: str,
    works: Mapping[str, str],
) -> list[Choice]:
    """Return the choices: the whole course and each assignment, with a column, and each exercise, without one.

    Columns leave out the points for `practice`. `works` has the ids of the columns, by which `grade push --lti`
    finds them: by assignment, and under "" for the whole course.
    """

    def column(title: str, assignment: str, exercises: Iterable[Exercise]) -> dict[str, Any]:
        others = course.extra_credit | {*practice}
        worth = sum(e.points for e in exercises if e.id not in others)
        work = works[assignment]
        return {"label": title, "scoreMaximum": worth, "resourceId": work, "tag": TAG}

    assignments = course.assignments if course.assignment is None else ()
    items: list[dict[str, Any]] = [
        {
            "title": course.title,
            "url": address + LAUNCH,
            "lineItem": column(course.title, "", course.exercises),
        },
        *(
            {
                "title": each.title,
                "url": address + ASSIGNMENT + each.id,
                "lineItem": column(each.title, each.id, course.select(each.exercises)),
            }
            for each in assignments
        ),
        *(
            {"title": f"{each.id}: {each.title}", "url": f"{address}/exercise/{each.id}"}
            for each in Gate(course).exercises()
        ),
    ]
    return [
        Choice(item["title"], _answer(launch, selection, key, {"type": "ltiResourceLink", **item}))
        for item in items
    ]


def policy_of(selection: Selection) -> str:
    """Return the page's Content-Security-Policy: only the platform may frame it and receive its forms."""
    url = urllib.parse.urlsplit(selection.return_to)
    platform = f"{url.scheme}://{url.netloc}"
    return (
        "default-src 'none'; style-src 'self'; script-src 'self'; base-uri 'none'; "
        f"form-action {platform}; frame-ancestors {platform}"
    )


def _answer(launch: Launch, selection: Selection, key: ToolKey, item: dict[str, Any]) -> str:
    platform = launch.platform
    claims: dict[str, Any] = {
        "iss": platform.client_id,
        "aud": platform.issuer,
        "nonce": secrets.token_hex(16),
        LTI + "message_type": "LtiDeepLinkingResponse",
        LTI + "version": VERSION,
        LTI + "deployment_id": launch.link.deployment,
        DEEP_LINKING + "content_items": [item],
    }
    if selection.data is not None:
        claims[DEEP_LINKING + "data"] = selection.data
    return key.signed(claims)
