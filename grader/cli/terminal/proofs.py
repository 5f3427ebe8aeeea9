"""Output of `grade verify` and `grade audit`: proofs, forgeries, mutants, attacks."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from grader.cli.terminal.console import checked, hang, print_lines, say
from grader.text import clean, counted
from grader.toml import written_value

if TYPE_CHECKING:
    from grader.audit.auditor import AttackResult
    from grader.authoring.forgeries import ForgedAnswer, ForgeryReport
    from grader.authoring.mutation import MutationReport
    from grader.authoring.verify import ExerciseProof

# A dropped loop is a long line, and an author who marks it needs all of it.
_LONGEST = 5_000
# Evidence may be a whole traceback.
_LONGEST_EVIDENCE = 300


def show_proofs(
    console: Console,
    proofs: Iterable[ExerciseProof],
    *,
    told: bool = False,
    points: bool = False,
    worth: bool = False,
) -> int:
    """Print each proof as it is made, and return the number of complaints.

    `told` also prints the messages for the students of wrong answers; `points` prints the share of the points
    that each wrong answer keeps; `worth` prints the catches and the cost of each test.
    """
    complaints = exercises = 0
    for proof in proofs:
        print_lines(console, _proof_lines(console, proof))
        if told:
            print_lines(console, _message_lines(console, proof))
        if worth:
            print_lines(console, _worth_lines(proof))
        if points:
            print_lines(console, _points_lines(console, proof))
        complaints += len(proof.complaints)
        exercises += 1
    count = counted(complaints, "complaint") if complaints else "No complaint"
    say(console, f"{count} about {counted(exercises, 'exercise')}.", "bold")
    return complaints


def _proof_lines(console: Console, proof: ExerciseProof) -> Iterator[Text]:
    """Describe a proof, with its complaints and the files written."""
    rights, wrongs = counted(proof.right, "right answer"), counted(proof.wrong, "wrong answer")
    counts = f"{counted(proof.tests, 'test')}, {rights}, {wrongs}"
    verdict = counted(len(proof.complaints), "complaint") if proof.complaints else "proved"
    if proof.unproved:
        verdict += f", without {proof.unproved}"
    yield from checked(console, not proof.complaints, f"{proof.exercise}: {counts}: {verdict}")
    for complaint in proof.complaints:
        for row, line in enumerate(complaint.splitlines()):
            yield from hang(console, "    " if row else "  - ", clean(line, 2000))
    for name in proof.written:
        yield from hang(console, "  ", f"{clean(name, 1000)}: written")


def _message_lines(console: Console, proof: ExerciseProof) -> Iterator[Text]:
    """List the tests that catch each wrong answer, with the messages that its student reads."""
    for wrong in proof.caught:
        title = f": {wrong.title}" if wrong.title else ""
        yield from hang(console, "  ", clean(f"{wrong.name}{title}", 2000), "bold")
        for test, message in wrong.messages:
            yield from hang(console, "    ", test)
            for line in message.splitlines() or ["(no message)"]:
                yield from hang(console, "      ", clean(line, 2000))


def _worth_lines(proof: ExerciseProof) -> Iterator[Text]:
    yield Text("  caught  alone      ms  test", "dim")
    for test in proof.worth:
        figures = f"{test.caught:8}{test.alone:7}{1000 * test.seconds:8.1f}"
        yield Text(f"{figures}  {test.visibility.value} {test.name}", "" if test.alone else "dim")


def _points_lines(console: Console, proof: ExerciseProof) -> Iterator[Text]:
    """List the points that each wrong answer keeps, the least first; count the answers that lose too much."""
    for wrong in sorted(proof.caught, key=lambda wrong: wrong.kept):
        mark = "central" if wrong.is_central else "dear" if wrong.is_dear else ""
        mark = "harsh" if wrong.is_harsh else mark
        line = clean(f"{wrong.kept:4.0%} {mark:<7}  {wrong.name}: {wrong.title}", 2000)
        yield from hang(console, "  ", line)
    if dear := sum(wrong.is_dear for wrong in proof.caught):
        count = counted(dear, "wrong answer")
        yield Text(f"  {count} lost more than a third for a mistake that is not marked as central.")
    if harsh := sum(wrong.is_harsh for wrong in proof.caught):
        count = counted(harsh, "central mistake")
        yield Text(
            f"  {count} left less than a quarter of the points: can fewer tests ask for the idea?"
        )


def show_words(console: Console, reports: Iterable[ForgeryReport]) -> bool:
    """Print each report as it is made; return whether words earn little in all exercises."""
    above = exercises = 0
    for report in reports:
        share = f"{report.exercise}: {report.share:.1%} of the points for words"
        print_lines(console, checked(console, report.holds, share))
        for test in report.tests:
            say(console, f"  - {test.visibility.value} {test.name}: {test.score:g}")
        above += not report.holds
        exercises += 1
    few = "None is" if not above else f"{above} {'is' if above == 1 else 'are'}"
    say(console, f"{counted(exercises, 'exercise')}. {few} above a tenth.", "bold")
    return not above


def show_forgeries(console: Console, reports: Iterable[ForgeryReport]) -> bool:
    """Print the points that forgeries earn in each exercise; return whether none earns too much."""
    above = exercises = 0
    for _, group in itertools.groupby(reports, lambda report: report.exercise):
        best, *others = sorted(group, key=lambda report: -report.share)
        text = f"{best.exercise}: at most {best.share:.1%} of the points"
        print_lines(console, checked(console, best.holds, text))
        for report in (best, *others):
            if report.share:
                say(console, f"  {report.forgery.value}: {report.share:.1%}", "dim")
        above += not best.holds
        exercises += 1
    few = "In none of them does a forgery earn" if not above else f"In {above}, a forgery earns"
    say(console, f"{counted(exercises, 'exercise')}. {few} more than a tenth.", "bold")
    return not above


def show_forged(console: Console, answers: Iterable[ForgedAnswer]) -> bool:
    """Print the points of each forged submission; return whether each that earns too much is held."""
    above = total = 0
    for answer in answers:
        text = f"{answer.exercise}/{answer.name}: {answer.share:.1%}"
        if answer.honest:
            text += f", of these {answer.honest:.0%} for what it really does"
        if answer.reasons:
            text += "; held"
        print_lines(console, checked(console, answer.holds, text))
        above += not answer.holds
        total += 1
    few = "None of them earns" if not above else f"{above} of them earn"
    if total:
        say(
            console,
            f"{counted(total, 'forged submission')}. {few} too much without being held.",
            "bold",
        )
    return not above


def show_mutants(console: Console, reports: Iterable[MutationReport]) -> bool:
    """Print each report as it is made; return whether every mutant is seen and there is no complaint."""
    judged = caught = equivalent = unseen = unnamed = complaints = exercises = 0
    for report in reports:
        print_lines(console, _mutation_lines(console, report))
        judged += report.judged
        caught += report.caught
        equivalent += report.equivalent
        unseen += len(report.survivors)
        unnamed += len(report.offers) - len(report.survivors)
        complaints += len(report.complaints)
        exercises += 1
    complained = f", {counted(complaints, 'complaint')}" if complaints else ""
    nameless = f", {unnamed} without a sentence" if unnamed else ""
    summary = (
        f"{caught} of {counted(judged, 'mutant')} caught, {equivalent} marked equivalent, "
        f"{unseen} unseen{nameless}{complained}, in {counted(exercises, 'exercise')}."
    )
    say(console, summary, "bold")
    return not unseen and not complaints


def _mutation_lines(console: Console, report: MutationReport) -> Iterator[Text]:
    """Count the caught mutants of a solution, and write an entry of the mutants file for each other one."""
    some = f"{report.judged} of " if report.judged < report.made else ""
    by_time = f" ({report.timed_out} by time)" if report.timed_out else ""
    text = (
        f"{report.exercise}: {some}{counted(report.made, 'mutant')}, {report.caught} caught{by_time}, "
        f"{report.equivalent} marked equivalent, {len(report.survivors)} unseen"
    )
    yield from checked(console, not report.survivors and not report.complaints, text)
    for complaint in report.complaints:
        yield from hang(console, "  - ", clean(complaint, 2000))
    for offer in report.offers:
        inside = f", in {offer.mutant.function}" if offer.mutant.function else ""
        fate = (
            f"{offer.caught_by} catches it, and names no mistake"
            if offer.caught_by
            else "no test sees it"
        )
        yield Text(f"\n# {report.solution}, line {offer.mutant.number}{inside}: {fate}.", "dim")
        # Do not wrap it: an author copies it into the mutants file.
        yield Text(f"[mistake.{offer.id}]")
        for key, value in {**offer.entry, "says": ""}.items():
            style = {"line": "red", "mutant": "green"}.get(key, "")
            yield Text(f"{key} = {clean(written_value(value), _LONGEST)}", style)
    if report.offers:
        yield Text()


# --- attacks ------------------------------------------------------------------------------------------


def show_findings(
    console: Console, results: Iterable[tuple[AttackResult, tuple[str, ...]]]
) -> list[AttackResult]:
    """Print each result as it is made; return the results of attacks that were not stopped."""
    total, kind = 0, ""
    held: tuple[str, ...] = ()
    missed: list[AttackResult] = []
    for result, walls in results:
        held = walls or held
        if result.attack.kind != kind:
            kind = result.attack.kind
            say(console, f"\n{kind}", "bold")
        print_lines(console, _attack_lines(console, result))
        total += 1
        missed += [] if result.stopped else [result]
    say(console, "")
    print_lines(console, hang(console, "The walls that held: ", ", ".join(held) or "none"))
    stopped = f"{total - len(missed)} of {counted(total, 'attack')} stopped."
    names = ", ".join(result.attack.name for result in missed)
    say(console, stopped + (f" Not stopped: {names}." if missed else ""), "bold")
    return missed


def _attack_lines(console: Console, result: AttackResult) -> Iterator[Text]:
    """Describe an attack and the wall that stopped it, or the evidence that it succeeded."""
    name = result.attack.name.replace("_", " ")
    yield from checked(console, result.stopped, f"{name}: {result.attack.tries}")
    if result.stopped:
        yield from hang(console, "  ", f"stopped: {result.by[:_LONGEST_EVIDENCE]}", "dim")
        return
    for trace in result.evidence:
        text = f"NOT STOPPED, {trace.proof.value}: {trace.detail[:_LONGEST_EVIDENCE]}"
        yield from hang(console, "  ", text, "red")
