"""A mistake in a policy.toml is explained in one sentence: the file, the key, and a remedy."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from grader.gradebook.facts import Facts, decoded, encoded
from grader.gradebook.policy import (
    EXAMPLES,
    Due,
    Extension,
    Late,
    NamedPolicy,
    Override,
    Rules,
    Step,
)
from grader.gradebook.policy_file import (
    PolicyError,
    check_names,
    policy_from,
    policy_text,
    read_policy,
    refuse_strangers,
    unknown_students,
)
from grader.results import StudentInfo

from .test_standing_rules import POLICIES

CHAPTERS = {"strides": "tensors", "relu": "autograd"}
AT = "[[due]]\nat = 2026-10-12T23:59:00Z\n"
WRONG = {
    'keep = "2 moons"': ["`keep`", "'2 moons'", 'keep = "2 years"'],
    'keep = "0 days"': ["`keep`", "'0 days' keeps nothing", 'keep = "2 years"'],
    "keep = 2": ["`keep`", 'keep = "2 years"'],
    'timezone = "Europe/Warsaww"': ["`timezone`", "'Europe/Warsaw'"],
    'attempts = "bst"': ["`attempts`", '"newest", "best" or "average"'],
    "max_attempts = 0": ["`max_attempts`", "max_attempts = 5"],
    "grce = 1": ["no key `grce`", "There are: attempts"],
    "per_day = 10": ["`per_day`", "It belongs below [late]"],
    "[late]\nper_dya = 10": ["`per_dya` of [late]", "Did you mean 'per_day'?"],
    '[late]\nper_day = "10"': ["`per_day` of [late]", "got a text in quotes", "per_day = 10"],
    "[late]\nper_day = 110": ["line 2: `per_day` of [late]", "<= 100"],
    "[late]\nper_day = nan\n" + AT: ["`per_day` of [late]", "expected a number"],
    '[late]\ngrace = "10 mins"': ["`grace` of [late]", "'mins'", 'grace = "15 minutes"'],
    "[late]\ngrace = 10": ["`grace` of [late]", 'grace = "15 minutes"'],
    "[late]\nper_day = 10": ["[late]", "nothing is due", "[[due]]"],
    '[late]\nper_day = 1\nsteps = [{after = "1 day", lose = 2}]\n' + AT: ["`per_day` and `steps`"],
    "[late]\nat_most = 50\n" + AT: ["`at_most` without `per_day`"],
    '[late]\ngrace = "2 days"\ncloses = "1 day"\n' + AT: ["`closes` before the `grace`"],
    '[late]\nsteps = [{after = "3 days", lose = 1}, {after = "1 day", lose = 2}]\n' + AT: [
        "not in order"
    ],
    '[late]\nsteps = [{after = "3 days", los = 1}]\n' + AT: ["`los`", "'lose'"],
    "[[due]]\nat = 2026-10-12": [
        "`at` of [[due]] 1",
        "a date without a time",
        "2026-10-12T23:59:00",
    ],
    "[[due]]\nat = 2026-10-12 23:59": ["line 2: this is not TOML", "A time has seconds"],
    "[[due]]\nat = 2026-10-12T23:59:00": ["`at` of [[due]] 1", 'timezone = "Europe/Warsaw"'],
    '[[due]]\nexercises = ["relu"]': ["[[due]] 1 needs `at`"],
    AT + 'exercises = ["strdes"]': ["policy.toml", "`exercises` of [[due]] 1", "'strides'?"],
    AT + 'chapters = ["tensor"]': ["`chapters` of [[due]] 1", "no such chapter", "'tensors'?"],
    AT + 'exercises = "strides"': ["`exercises` of [[due]] 1", "expected a list"],
    "[due]\nat = 2026-10-12T23:59:00Z": ["`due`", "[[due]]"],
    AT + AT: ["'strides' is due twice", "[[due]] 1 and [[due]] 2"],
    AT + '[[extension]]\nstudent = "zoe"': ["[[extension]] 1", "`until` and `by`"],
    AT + '[[extension]]\nby = "1 day"': ["[[extension]] 1 is for no student"],
    AT + '[[extension]]\nstudent = "zoe"\nby = "soon"': [
        "line 5: `by` of [[extension]] 1",
        'by = "2 days"',
    ],
    AT + '[[extension]]\nstudent = "zoe"\nby = "1 day"\nexercises = ["rleu"]': [
        "`exercises` of [[extension]] 1",
        "'relu'?",
    ],
    '[[extension]]\nstudent = "zoe"\nby = "1 day"': ["has no effect"],
    "[[due]]\nat = 0001-01-01T00:00:00+14:00": ["`at` of [[due]] 1", "out of range"],
}


@pytest.mark.parametrize("text", WRONG)
def test_a_mistake_is_explained_with_its_key_and_a_remedy(text: str) -> None:
    with pytest.raises(PolicyError) as caught:
        check_names(
            read_policy(text, CHAPTERS, file="policy.toml"),
            "policy.toml",
            CHAPTERS,
            CHAPTERS.values(),
        )
    message = str(caught.value)
    assert re.match(r"policy\.toml(, line \d+)?: ", message)
    assert "\n" not in message
    for words in WRONG[text]:
        assert words in message
    assert caught.value.exit_code == 2


def test_a_policy_with_every_kind_of_rule_is_read() -> None:
    text = """
timezone = "Europe/Warsaw"
attempts = "best"
max_attempts = 5

[late]
grace = "15 minutes"
per_day = 10
at_most = 50
closes = "7 days"

[[due]]
exercises = ["strides"]
at = 2026-10-12T23:59:00

[[due]]
chapters = ["autograd"]
at = 2026-10-19T23:59:00+02:00
late = {steps = [{after = "0 hours", lose = 10}, {after = "3 days", lose = 50}]}

[[extension]]
student = "zoe"
until = 2026-10-15T23:59:00
reason = "ill"

[[extension]]
section = "B"
exercises = ["relu"]
by = "2 days"
"""
    policy = read_policy(text, CHAPTERS)
    check_names(policy, "policy.toml", CHAPTERS, CHAPTERS.values())
    assert policy.rules.due[1].late is not None
    assert len(policy.rules.due[1].late.steps) == 2


def test_unknown_students_and_sections_are_noted() -> None:
    text = f"""{AT}
[[extension]]
student = "zeo"
by = "1 day"
[[extension]]
students = ["zoe", "Kim Lee"]
by = "1 day"
[[extension]]
section = "C"
by = "1 day"
"""
    students = [
        StudentInfo(id="zoe", ids={"section": "B"}),
        StudentInfo(id="k17", name="Kim Lee"),
    ]
    notes = list(unknown_students(read_policy(text), students))
    assert [note[:60] for note in notes] == [
        "`student` of [[extension]] 1 names 'zeo', and no student her",
        "`students` of [[extension]] 2 names 'Kim Lee', and no studen",
        "`section` of [[extension]] 3 is 'C', and no student here is ",
    ]
    assert "'zoe'?" in notes[0]
    assert "'k17'" in notes[1]
    assert "B" in notes[2]


def test_a_policy_file_is_read_as_utf_8_with_or_without_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(PolicyError, match="not in UTF-8"):
        policy_from(path, CHAPTERS)
    path.write_text("\ufeff" + AT, encoding="utf-8")
    assert policy_from(path, CHAPTERS).rules.due


@pytest.mark.parametrize("text", POLICIES)
def test_rules_survive_a_round_trip_through_toml_and_facts(text: str) -> None:
    rules = read_policy(text).rules
    assert read_policy(policy_text(rules)).rules == rules
    facts = Facts(policy=rules, named_policy=NamedPolicy("policy.toml", rules))
    assert decoded(encoded(facts)) == facts


@pytest.mark.parametrize("table", [Rules, Late, Step, Due, Override, Extension])
def test_every_key_is_documented_and_has_an_example(table: type[msgspec.Struct]) -> None:
    page = Path(__file__).resolve().parents[3] / "docs" / "reference.md"
    section = page.read_text(encoding="utf-8").partition("## The policy")[2].partition("\n## ")[0]
    assert [key for key in table.__struct_fields__ if not re.search(rf"\b{key}\b", section)] == []
    assert {*table.__struct_fields__} <= EXAMPLES.keys()


def test_a_section_beside_another_in_a_cell_is_known() -> None:
    text = f'{AT}\n[[extension]]\nsection = "B"\nby = "1 day"\n'
    (ada,) = [StudentInfo(id="ada", ids={"section": "A and B"})]
    assert list(unknown_students(read_policy(text), [ada])) == []


def test_extensions_that_name_no_student_of_the_class_are_refused() -> None:
    students = [
        StudentInfo(id="501", name="Jane Doe", ids={"username": "jdoe"}),
        StudentInfo(id="502", name="Piet B"),
    ]

    def refuse(*names: str) -> None:
        listed = ", ".join(map(repr, names))
        text = f"{AT}\n[[extension]]\nstudents = [{listed}]\nby = '1 day'\n"
        refuse_strangers(read_policy(text), students)

    with pytest.raises(
        PolicyError, match=r"name no student of this class.* jdoe, and ids here are 501"
    ):
        refuse("jdoe")
    with pytest.raises(PolicyError, match=r"They name x and y, and ids here are 501 and 502"):
        refuse("x", "y")
    refuse("501", "x", "y")
    # One unknown name may be a student who left, and only gives a note.
    refuse("x")
    refuse_strangers(read_policy(AT), [])
