"""`grade platform`: the LTI platforms where students sign in, and which get their points."""

from __future__ import annotations

import time
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import click
import msgspec

from grader.cli import options as shared
from grader.cli.border import Command
from grader.cli.results import open_book
from grader.errors import SubmissionError
from grader.exports.files import open_export
from grader.exports.table import Table
from grader.gradebook import invitations, platforms
from grader.gradebook.platforms import Platform, changing_platforms
from grader.student.client import checked_address
from grader.text import clean, counted, listed, with_article

_ACTIONS = ("invite", "confirm", "show", "add", "list", "remove", "roster")
# The options of `confirm`: everything else is as the platform sent it.
_OF_PERSON = ("name", "claim", "column")
_NEXT = "Next: launch this server from the platform once, which gives the addresses for grades."
_LONGEST = 2000
# Canvas's addresses, which are the same for every school.
_CANVAS = {
    "issuer": "https://canvas.instructure.com",
    "authorization": "https://sso.canvaslms.com/api/lti/authorize_redirect",
    "token": "https://sso.canvaslms.com/login/oauth2/token",
    "keys": "https://sso.canvaslms.com/api/lti/security/jwks",
    "name": "Canvas",
}
_MOODLE = {
    "issuer": "",
    "authorization": "/mod/lti/auth.php",
    "token": "/mod/lti/token.php",
    "keys": "/mod/lti/certs.php",
}


@click.command(cls=Command)
@click.argument("action", type=click.Choice(_ACTIONS))
@click.argument("results", metavar="RESULTS", type=shared.FOLDER)
@click.argument("platform_name", metavar="[NAME]", default="")
@click.option("--address", metavar="URL", help="With invite and show: the address of your server.")
@click.option("--canvas", is_flag=True, help="Fill in the addresses of Canvas at Instructure.")
@click.option("--moodle", metavar="URL", help="Fill in the addresses of the Moodle at URL.")
@click.option("--issuer", metavar="URL", help="The platform's issuer, also called platform id.")
@click.option("--client-id", metavar="ID", help="The client id that the platform gave this tool.")
@click.option(
    "--deployment",
    "deployments",
    metavar="ID",
    multiple=True,
    help="A deployment id that the platform gave; may be repeated.",
)
@click.option("--authorization", metavar="URL", help="Its authentication request URL.")
@click.option("--token", metavar="URL", help="Its access token URL.")
@click.option("--keys", metavar="URL", help="Its public keyset URL (JWKS).")
@click.option("--name", metavar="NAME", help="Its name on pages for staff.")
@click.option(
    "--claim",
    metavar="CLAIM",
    help="The platform's claim about a user that must equal --column: email (the default), "
    "lis_person_sourcedid or another.",
)
@click.option(
    "--column", metavar="COLUMN", help="The class list's column for --claim; by default email."
)
@click.option(
    "--staff-course",
    "staff_courses",
    metavar="ID",
    multiple=True,
    help="The platform's id of a course whose instructors are staff here; may be repeated.",
)
@click.option(
    "-o",
    "--output",
    "output",
    metavar="CSV",
    type=shared.FILE,
    help="With roster: write the class list to this new file.",
)
@click.option(
    "--id",
    "id_claim",
    metavar="CLAIM",
    default="email",
    show_default=True,
    help="With roster: the platform's claim that becomes the id here, such as lis_person_sourcedid.",
)
@click.option("--yes", is_flag=True, help="With confirm: do not ask.")
@click.option(
    "--audience",
    metavar="TEXT",
    help="The audience of signed requests for tokens; by default --token.",
)
def platform(
    action: str,
    results: Path,
    platform_name: str,
    address: str | None,
    canvas: bool,
    moodle: str | None,
    deployments: tuple[str, ...],
    staff_courses: tuple[str, ...],
    output: Path | None,
    id_claim: str,
    yes: bool,
    **typed: str | None,
) -> None:
    """Register LTI platforms, such as Canvas and Moodle, at the server of RESULTS.

    `invite` prints an address that works once, within an hour. Paste it into the platform as its dynamic
    registration URL: platform and server then tell each other everything. `confirm` shows what the platform
    sent, and lets people sign in from it. For a platform without dynamic registration, `show` prints the
    addresses to enter there, and `add` takes the values that it shows; it replaces a platform with the same
    issuer and client id. `list` shows the platforms and their links to this server,
    and `remove` removes a platform with its links and users. `roster` writes the students of a platform's
    course to a class list; NAME is then a part of the name of the platform or the course. A running server
    notices changes at once. docs/serve.md has the steps for Canvas and Moodle.

    \b
    Examples:
      grade platform invite results --address https://grade.example.org
      grade platform confirm results
      grade platform show results --address https://grade.example.org
      grade platform add results --canvas --client-id 10000000000007 --deployment 1:abc
      grade platform add results --moodle https://moodle.example.edu --client-id X9 --deployment 2
      grade platform list results
      grade platform remove results Canvas
      grade platform roster results "Deep Learning" -o class.csv
    """
    if action == "show":
        _show(results, address)
    elif action == "invite":
        _invite(results, address)
    elif action == "confirm":
        changes = {key: text for key in _OF_PERSON if (text := typed[key])}
        _confirm(results, platform_name, changes, deployments, staff_courses, yes=yes)
    elif action == "add":
        filled = _filled(canvas=canvas, moodle=moodle)
        fields = {**filled, **{name: text for name, text in typed.items() if text}}
        _add(results, fields, deployments, staff_courses)
    elif action == "list":
        with open_book(results) as book:
            known, waiting = platforms.platforms(book), invitations.waiting(book)
            if not known and not waiting:
                click.echo(
                    "No platform is registered: use `grade platform invite` or `grade platform add`."
                )
            for line in _listed(known, platforms.links(book)):
                click.echo(line)
            for each in waiting:
                click.echo(
                    f"{_described(each)}, waits: `grade platform confirm` lets people sign in from it"
                )
    elif action == "roster":
        _write_roster(results, platform_name, output, id_claim)
    else:
        _remove(results, platform_name)


def _own_address(address: str | None) -> str:
    """Return the address of the server; raises a usage error without one, or without https."""
    if address is None:
        raise click.UsageError(
            "Name the address of your server: --address https://grade.example.org."
        )
    base = checked_address(address)
    platforms.refuse_unsafe(base, "the address of a server for a platform")
    return base


def _invite(results: Path, address: str | None) -> None:
    """Print a new one-time address for a platform."""
    from grader.gradebook.tool_key import made_key

    base = _own_address(address)
    with changing_platforms(results) as book:
        invitations.prepare(book)
        secret = invitations.invite(book, time.time())
        made_key(results)
    click.echo(f"{base}/lti/register/{secret}")
    click.echo(
        "Paste this address into the platform, as its dynamic registration URL. It works once, within an hour, "
        f"while the server runs. Then: grade platform confirm {results}",
        err=True,
    )


def _confirm(
    results: Path,
    name: str,
    changes: Mapping[str, str],
    deployments: tuple[str, ...],
    staff_courses: tuple[str, ...],
    *,
    yes: bool,
) -> None:
    """Show a platform that registered itself, ask, and register it."""
    with open_book(results) as book:
        found = invitations.waiting(book)
        known = platforms.platforms(book)
    if not found:
        raise SubmissionError(
            "No platform waits to be confirmed. `grade platform invite` prints an address for one."
        )
    if not name and len(found) > 1:
        raise click.UsageError(f"Name the platform to confirm. There are: {_names(found)}.")
    chosen = _chosen(found, name) if name else found[0]
    if (chosen.issuer, chosen.client_id) in {(each.issuer, each.client_id) for each in known}:
        raise SubmissionError(
            f"{clean(chosen.title)} is registered already, with the same client id: remove it first."
        )
    told = msgspec.structs.replace(
        chosen,
        **changes,
        deployments=deployments or chosen.deployments,
        staff_courses=staff_courses,
    )
    if not told.deployments:
        raise click.UsageError(
            f"{clean(told.title)} did not send its deployment id: give --deployment, as the platform shows it."
        )
    _refuse_confusing(told, known)
    for label, value in (
        ("Issuer", told.issuer),
        ("Client id", told.client_id),
        ("Deployments", ", ".join(told.deployments)),
        ("Authorization", told.authorization),
        ("Token", told.token),
        ("Keys", told.keys),
        *((("Audience", told.audience),) if told.audience else ()),
    ):
        click.echo(f"{label}: {clean(value, _LONGEST)}")
    if not yes:
        click.confirm(
            "Is this your platform? Whoever administers it can sign in as any student", abort=True
        )
    with changing_platforms(results) as book:
        platforms.add_platform(book, told)
        invitations.wait_no_longer(book, told.issuer, told.client_id)
    click.echo(f"{clean(told.title)} is registered.")
    click.echo(_NEXT)


def _show(results: Path, address: str | None) -> None:
    from grader.gradebook.tool_key import made_key

    base = _own_address(address)
    results.mkdir(mode=0o700, parents=True, exist_ok=True)
    made_key(results)
    for name, place in (
        ("Initiate login URL", f"{base}/lti/login"),
        ("Redirect URI, tool URL, target link URI", f"{base}/lti/launch"),
        ("Public keyset (JWKS) URL", f"{base}/lti/keys"),
    ):
        click.echo(f"{name}: {place}")


def _filled(*, canvas: bool, moodle: str | None) -> dict[str, str]:
    """Return the addresses that are known for Canvas, or for the Moodle at this address."""
    if canvas and moodle is not None:
        raise click.UsageError("Give --canvas or --moodle, not both.")
    if canvas:
        return _CANVAS
    if moodle is None:
        return {}
    base = checked_address(moodle)
    return {**{name: base + path for name, path in _MOODLE.items()}, "name": "Moodle"}


def _add(
    results: Path,
    fields: Mapping[str, str],
    deployments: tuple[str, ...],
    staff_courses: tuple[str, ...],
) -> None:
    for needed in ("issuer", "client_id", "authorization", "token", "keys"):
        if not fields.get(needed):
            raise click.UsageError(f"Give --{needed.replace('_', '-')}, as the platform shows it.")
    if not deployments:
        raise click.UsageError("Give at least one --deployment, as the platform shows it.")
    known = Platform(deployments=deployments, staff_courses=staff_courses, **fields)
    from grader.gradebook.tool_key import made_key

    with changing_platforms(results) as book:
        _refuse_confusing(known, platforms.platforms(book))
        made_key(results)
        was_there = platforms.add_platform(book, known)
    click.echo(f"{clean(known.title)} is {'replaced' if was_there else 'registered'}.")
    if not was_there:
        click.echo(_NEXT)


def _refuse_confusing(new: Platform, known: Iterable[Platform]) -> None:
    """Raise a usage error if two platforms have the same name, or one could get the other's access tokens."""
    for each in known:
        if (each.issuer, each.client_id) == (new.issuer, new.client_id):
            continue
        if each.name == new.name:
            raise click.UsageError(
                f"Another platform is called {new.name!r}: give this one another --name."
            )
        if each.client_id == new.client_id and (_is_foreign(each) or _is_foreign(new)):
            # A signed request for a token names only the client id and the audience.
            raise click.UsageError(
                f"{clean(new.title)} and {clean(each.title)} have the same client id, and the audience of one "
                "is on another host: with requests for tokens from this server, one could read and write "
                "grades at the other. If both are yours, let a platform make another client id."
            )


def _is_foreign(platform: Platform) -> bool:
    """Whether the audience of a platform is on another host than its issuer and its tokens."""
    hosts = {urllib.parse.urlsplit(each).netloc for each in (platform.issuer, platform.token)}
    audience = platform.audience
    # Canvas sends only the host.
    return audience not in {"", *hosts} and urllib.parse.urlsplit(audience).netloc not in hosts


def _chosen(there: Sequence[Platform], name: str) -> Platform:
    """Return the platform with this name, issuer or client id; raises SubmissionError unless there is one."""
    found = [each for each in there if name in (each.name, each.issuer, each.client_id)]
    if len(found) != 1:
        many = "Several platforms are" if found else "No platform is"
        raise SubmissionError(
            f"{many} called {clean(name)!r}. There are: {_names(there) or 'none'}."
        )
    return found[0]


def _names(there: Iterable[Platform]) -> str:
    return ", ".join(f"{clean(each.title)} ({clean(each.client_id)})" for each in there)


def _remove(results: Path, name: str) -> None:
    if not name:
        raise click.UsageError("Name the platform to remove, as `grade platform list` shows it.")
    with open_book(results):
        # Do not make a gradebook in a folder without one.
        pass
    with changing_platforms(results) as book:
        invitations.prepare(book)
        chosen = _chosen([*platforms.platforms(book), *invitations.waiting(book)], name)
        platforms.remove_platform(book, chosen.issuer, chosen.client_id)
        invitations.wait_no_longer(book, chosen.issuer, chosen.client_id)
    click.echo(f"{clean(chosen.title)} is removed, with its links and users.")


def _write_roster(results: Path, words: str, output: Path | None, id_claim: str) -> None:
    """Write the students of a course to a class list."""
    if output is None:
        raise click.UsageError("Name the class list to write: -o class.csv.")
    if output.exists():
        raise click.UsageError(f"{output} already exists: name a new file.")
    from grader.exports.push.lti import class_list
    from grader.gradebook.tool_key import made_key

    with open_book(results) as book:
        known, link = platforms.chosen_course(book, words)
    students, without = class_list(known, link, made_key(results), id_claim)
    if not students:
        raise SubmissionError(
            f"{platforms.described(known, link)} sends no {clean(id_claim)} for any student: let the "
            "platform share names and addresses with this tool, or name another --id."
        )
    more = sorted({kind for student in students for kind in student.ids})
    with open_export(output) as out:
        table = Table(out)
        table.row(("id", "name", "email", *more))
        for student in students:
            ids = (student.ids.get(kind, "") for kind in more)
            table.row((student.id, student.name, student.email, *ids))
    click.echo(f"{counted(len(students), 'student')}: {output}")
    if without:
        names = listed([clean(name, 100) for name in without])
        click.echo(
            f"Left out, without {with_article(clean(id_claim))} of their own: {names}.", err=True
        )


def _listed(known: list[Platform], links: list[platforms.Link]) -> Iterator[str]:
    """Yield the platforms, each with its links."""
    for each in known:
        yield f"{_described(each)}, {clean(each.claim)} is {clean(each.column)} of the class list"
        mine = [e for e in links if (e.issuer, e.client_id) == (each.issuer, each.client_id)]
        for link in mine:
            grades = "" if link.lineitem or link.lineitems else ", without grades"
            names = "" if link.memberships else ", without names and roles"
            yield f"  {platforms.described(each, link)}{grades}{names}"
        if not mine:
            yield "  never launched"


def _described(platform: Platform) -> str:
    deployments = ", ".join(map(clean, platform.deployments)) or "unknown"
    return (
        f"{clean(platform.title)}: {clean(platform.issuer)}, client {clean(platform.client_id)}, "
        f"{counted(len(platform.deployments), 'deployment')} ({deployments})"
    )
