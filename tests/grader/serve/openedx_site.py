"""Open edX's LTI platform as a site of its own on loopback: `lti-consumer-xblock` in Django, without Open edX.

`test_openedx.py` starts it with the Python of `build/openedx`. It issues tokens, keeps line items and scores,
and answers with results. Names and roles and launches would need the rest of Open edX. Once it listens, it
prints a line of JSON.
"""

from __future__ import annotations

import json
import logging
import socketserver
import sys
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import django
from django.conf import settings

urlpatterns: list[Any] = []


class Server(socketserver.ThreadingMixIn, WSGIServer):
    """A server with one thread per request."""

    daemon_threads = True


class Quiet(WSGIRequestHandler):
    """Does not log requests."""

    def log_message(self, *_: object) -> None:
        pass


def main(folder: Path, tool_keys: str) -> None:
    """Serve one course, with data in `folder` and a tool whose keys are at `tool_keys`."""
    server = Server(("127.0.0.1", 0), Quiet)
    address = f"http://127.0.0.1:{server.server_port}"
    settings.configure(
        SECRET_KEY="of a test",
        ALLOWED_HOSTS=["127.0.0.1"],
        INSTALLED_APPS=[
            *("django.contrib.contenttypes", "django.contrib.auth", "django.contrib.sites"),
            *("rest_framework", "django_filters", "config_models", "waffle", "lti_consumer"),
        ],
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.sqlite3",
                "NAME": str(folder / "edx.sqlite"),
                "OPTIONS": {"timeout": 60},
            }
        },
        ROOT_URLCONF="__main__",
        USAGE_ID_PATTERN="(?P<usage_id>[^/]+)",
        LTI_BASE=address,
        LTI_API_BASE=address,
        LMS_ROOT_URL=address,
        REST_FRAMEWORK={"UNAUTHENTICATED_USER": None},
        DEFAULT_AUTO_FIELD="django.db.models.AutoField",
        USE_TZ=True,
        FEATURES={},
    )
    logging.disable(logging.ERROR)
    django.setup()
    from django.core.management import call_command
    from django.core.wsgi import get_wsgi_application
    from django.urls import include, path
    from lti_consumer.models import Lti1p3Passport, LtiConfiguration

    urlpatterns.append(path("api/", include("lti_consumer.plugin.urls")))
    call_command("migrate", verbosity=0)
    passport = Lti1p3Passport(lti_1p3_tool_keyset_url=tool_keys)
    passport.save()
    known = LtiConfiguration(
        lti_1p3_passport=passport,
        version=LtiConfiguration.LTI_1P3,
        config_store=LtiConfiguration.CONFIG_ON_DB,
        location="block-v1:edX+DL+1+type@lti_consumer+block@lab",
        lti_1p3_launch_url="https://grade.example.org/lti/launch",
        lti_1p3_oidc_url="https://grade.example.org/lti/login",
        # The tool creates its own column: a column of a block would need the block.
        lti_advantage_ags_mode=LtiConfiguration.LTI_ADVANTAGE_AGS_PROGRAMMATIC,
    )
    known.save()
    consumer = known.get_lti_consumer()
    told = {
        "address": address,
        "client": known.lti_1p3_client_id,
        "passport": str(known.passport_id),
        # The claim about grades in a launch.
        "grades": consumer.lti_ags.get_lti_ags_launch_claim(),
    }
    server.set_app(get_wsgi_application())
    print(json.dumps(told), flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
