"""Deep Linking: a person who teaches selects in the platform what a new link opens.

The answer to the platform is signed with the server's key, and the person's browser posts it. The page has a
form for each choice, so choosing needs no session here: nothing on the page is more than students read.
"""

from __future__ import annotations

import secrets
import urllib.parse
from typing import Any, NamedTuple

from grader.course.manifest import Course
from grader.exports.push.lti import TAG
from grader.gradebook.tool_key import ToolKey
from grader.serve.sign_in.launch import DEEP_LINKING, LAUNCH, LTI, VERSION, Launch, Selection


class Choice(NamedTuple):
    """Something that a link can open: its `title`, and the signed answer that selects it."""

    title: str
    answer: str


def choices(
    launch: Launch, selection: Selection, course: Course, key: ToolKey, address: str, work: str
) -> list[Choice]:
    """Return the choices of a course: all of it, with a column of points, and each exercise without one.

    The column has the id by which `grade push --lti` finds it (`work`).
    """
    worth = sum(exercise.points for exercise in course.exercises)
    title = course.title
    column = {"label": title, "scoreMaximum": worth, "resourceId": work, "tag": TAG}
    items: list[dict[str, Any]] = [
        {"title": title, "url": address + LAUNCH, "lineItem": column},
        *(
            {"title": f"{each.id}: {each.title}", "url": f"{address}/exercise/{each.id}"}
            for each in course.exercises
        ),
    ]
    return [
        Choice(item["title"], _answer(launch, selection, key, {"type": "ltiResourceLink", **item}))
        for item in items
    ]


def policy_of(selection: Selection) -> str:
    """Return the policy of the page of choices: it posts to the platform, which may show it in a frame."""
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
