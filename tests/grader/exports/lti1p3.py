"""A platform on loopback that speaks LTI through `lti1p3platform`, a package by others.

The package checks our assertions with the keys that it reads from the server's own address, gives and checks
access tokens, and speaks Assignment and Grade Services and Names and Roles. Only the store, which the package
leaves to its user, and the HTTP around it are ours.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from lti1p3platform.exceptions import LineItemNotFoundException, LtiException
from lti1p3platform.ltiplatform import LTI1P3PlatformConfAbstract
from lti1p3platform.membership import Context
from lti1p3platform.registration import Registration
from lti1p3platform.request import Request
from lti1p3platform.response import Response, generate_next_link
from lti1p3platform.score import UpdateScoreStatus
from lti1p3platform.service_connector import AssignmentsGradesService, NamesRoleProvisioningService

from grader.exports.push.lti import LINE_ITEM, RESULT, SCORE
from grader.gradebook.platforms import Link, Platform
from tests.grader.exports.platforms import on_loopback

ISSUER, CLIENT = "https://lms.example.edu", "client-1"
_PAGE = 2


class Store:
    """The grade book and the members of one course."""

    def __init__(self, users: dict[str, dict[str, Any]], worth: float, *, linked: bool) -> None:
        self.users, self.worth, self.linked = users, worth, linked
        self.items: dict[str, dict[str, Any]] = {}
        self.scores: list[tuple[str, dict[str, Any]]] = []
        self.newest: dict[tuple[str, str], dict[str, Any]] = {}
        self.tool_keys = ""
        self.address = ""
        self.asked: list[str] = []

    @property
    def platform(self) -> Platform:
        """The platform as it is registered."""
        return Platform(
            issuer=ISSUER,
            client_id=CLIENT,
            deployments=("1",),
            authorization=f"{self.address}/auth",
            token=f"{self.address}/token",
            keys=f"{self.address}/jwks",
            name="LMS",
        )

    @property
    def link(self) -> Link:
        """The link as a launch tells it."""
        item = f"{self.address}/items/1"
        if self.linked:
            self.items[item] = {"id": item, "label": "Lab", "scoreMaximum": self.worth}
        return Link(
            issuer=ISSUER,
            client_id=CLIENT,
            deployment="1",
            context="c",
            resource="r",
            lineitem=item if self.linked else "",
            lineitems=f"{self.address}/items",
            scopes=(LINE_ITEM, RESULT, SCORE),
            memberships=f"{self.address}/members",
        )


class _Request(Request):  # type: ignore[misc]  # comes without types
    def build_metadata(self, request: dict[str, Any]) -> Any:
        return request


class _Conf(LTI1P3PlatformConfAbstract):  # type: ignore[misc]  # comes without types
    store: Store

    def init_platform_config(self, **kwargs: Any) -> None:
        self.store = kwargs["store"]
        key = rsa.generate_private_key(65537, 2048)
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        self._registration = (
            Registration()
            .set_iss(ISSUER)
            .set_client_id(CLIENT)
            .set_deployment_id("1")
            .set_platform_private_key(private.decode())
            .set_platform_public_key(public.decode())
            .set_tool_key_set_url(self.store.tool_keys)
        )

    def get_registration_by_params(self, **kwargs: Any) -> Registration:
        assert self._registration is not None
        return self._registration


def _page(items: list[Any], page: int, limit: int | None) -> dict[str, Any]:
    size = limit or len(items) or 1
    return {
        "content": items[(page - 1) * size : page * size],
        "has_next": page * size < len(items),
        "next": None,
    }


class _Grades(AssignmentsGradesService):  # type: ignore[misc]  # comes without types
    store: Store

    def find_lineitems(self, page: int = 1, limit: int | None = None, **wanted: str) -> Any:
        names = {"resource_id": "resourceId", "tag": "tag"}
        keys = {names[name]: value for name, value in wanted.items()}
        return _page(
            [i for i in self.store.items.values() if keys.items() <= i.items()], page, limit
        )

    def find_lineitem(self, line_item_id: str) -> Any:
        if line_item_id not in self.store.items:
            raise LineItemNotFoundException
        return self.store.items[line_item_id]

    def create_lineitem(self, creation_data: Any) -> Any:
        id_ = f"{self.store.address}/items/{len(self.store.items) + 1}"
        self.store.items[id_] = {**creation_data, "id": id_}
        return self.store.items[id_]

    def update_lineitem(self, update_data: Any) -> Any:
        raise NotImplementedError

    def delete_lineitem(self, line_item_id: str) -> None:
        raise NotImplementedError

    def update_score(self, line_item_id: str, score: Any) -> UpdateScoreStatus:
        self.find_lineitem(line_item_id)
        key = line_item_id, score["userId"]
        if key in self.store.newest and self.store.newest[key]["timestamp"] >= score["timestamp"]:
            return UpdateScoreStatus.OLD_TIMESTAMP
        self.store.newest[key] = score
        self.store.scores.append((line_item_id, score))
        return UpdateScoreStatus.SUCCESS

    def get_results(
        self, line_item_id: str, page: int = 1, limit: int | None = None, user_id: str | None = None
    ) -> Any:
        item = self.find_lineitem(line_item_id)
        results = [
            {
                "id": f"{line_item_id}/results/{user}",
                "userId": user,
                "resultScore": score["scoreGiven"] * item["scoreMaximum"] / score["scoreMaximum"],
                "resultMaximum": item["scoreMaximum"],
                "scoreOf": line_item_id,
            }
            for (of, user), score in self.store.newest.items()
            if of == line_item_id and user_id in (None, user)
        ]
        return _page(results, page, limit)


class _Members(NamesRoleProvisioningService):  # type: ignore[misc]  # comes without types
    store: Store

    def get_member_data_page(self, page: int = 1, limit: int | None = None, **_: str) -> Any:
        members = [{"user_id": user, **told} for user, told in self.store.users.items()]
        return _page(members, page, limit)

    def get_context_by_id(self) -> Context:
        return Context("c", "DL", "Deep Learning")


class _Handler(BaseHTTPRequestHandler):
    store: Store
    conf: _Conf

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        url = urlsplit(self.path)
        self.store.asked.append(url.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        query: dict[str, Any] = dict(parse_qsl(url.query))
        # The package calculates with numbers. Pages are small here, regardless of the requested limit.
        query |= {name: int(query[name]) for name in ("page", "limit") if name in query}
        if url.path == "/members" or url.path.endswith("/results"):
            query["limit"] = _PAGE
        request = _Request(
            {
                "method": self.command,
                "form_data": dict(parse_qsl(body)),
                "get_data": query,
                "headers": dict(self.headers),
                "content_type": self.headers.get("Content-Type"),
                "path": url.path,
                "json": json.loads(body) if body.startswith("{") else None,
            }
        )
        if url.path == "/token":
            try:
                self._give(200, self.conf.get_access_token(request.form_data), "application/json")
            except LtiException as error:
                self._give(400, {"error": "invalid_client", "error_description": str(error)}, "")
            return
        said = self._service(request, url.path)
        value = said.result if said.code < 400 else {"message": said.message}
        following = value.get("next") if isinstance(value, dict) else None
        if isinstance(value, dict) and "content" in value:
            value = value["content"]
        self._give(said.code, value, said.media_type, following or "")

    def _service(self, request: _Request, path: str) -> Response:
        store = self.store
        if path == "/members":
            members = _Members(request, self.conf, f"{store.address}/members")
            members.store = store
            return members.handle_resp(members.handle_get_members)
        one = re.fullmatch(r"(/items/\d+)(/results|/scores)?", path)
        item = store.address + (one[1] if one else "")
        grades = _Grades(request, self.conf, f"{store.address}/items", item)
        grades.store = store
        if one is None:
            making = request.method == "POST"
            return grades.handle_resp(
                grades.handle_create_lineitem if making else grades.handle_get_lineitems
            )
        handlers = {
            "/results": grades.handle_get_results,
            "/scores": grades.handle_update_score,
            None: grades.handle_get_lineitem,
        }
        return grades.handle_resp(handlers[one[2]], line_item_id=item)

    def _give(self, status: int, value: Any, kind: str, following: str = "") -> None:
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        if following:
            self.send_header("Link", generate_next_link(following))
        self.end_headers()
        self.wfile.write(content)


@contextlib.contextmanager
def serving(store: Store, tool_keys: str) -> Iterator[None]:
    """Serve the platform. It reads the keys of the tool from the address `tool_keys`."""
    store.tool_keys = tool_keys
    handler = type("OfThis", (_Handler,), {"store": store, "conf": _Conf(store=store)})
    with on_loopback(handler) as store.address:
        yield
