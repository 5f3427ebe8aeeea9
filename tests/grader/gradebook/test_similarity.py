"""Similar pairs and groups of files, which are the same in every process."""

from __future__ import annotations

import csv
import io
import os
import random
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from string import ascii_lowercase

import msgspec
import pytest
from rich.console import Console

from grader.cli.terminal.groups import show_similarity
from grader.course.manifest import load_course
from grader.errors import GraderError
from grader.gradebook.similarity.findings import (
    AlikeCircle,
    AlikeGroup,
    Basis,
    GroupExercise,
    Similarity,
    read_similar,
    source_digest,
    write_files,
    write_similar,
)
from grader.gradebook.similarity.fingerprints import Reader
from grader.gradebook.similarity.survey import answers, circles, find_similar, grouped
from tests.grader.builders import checked, entry, exercise

ROOT = Path(__file__).resolve().parents[3]
COURSE = load_course(ROOT)
GLU = COURSE.exercise("glu")
STUB = COURSE.stub(GLU).source.decode()
SOLUTION = COURSE.solution(GLU).read_text(encoding="utf-8")


def right_answers(exercise_id: str = "glu") -> dict[str, str]:
    """Map the names of answer files by different authors to their texts."""
    exercise = COURSE.exercise(exercise_id)
    paths = [COURSE.solution(exercise), *COURSE.variants(exercise, "right")]
    return {path.stem: path.read_text(encoding="utf-8") for path in paths}


def similar(files: Mapping[str, str], *, stub: str = STUB, **keywords: object) -> Similarity:
    """Compare a class in which each student handed in one file."""
    return find_similar(
        [entry(student=student) for student in files],
        lambda entry: {"glu": files[entry.student.id].encode()},
        {"glu": stub.encode()},
        **keywords,  # type: ignore[arg-type]  # threshold and most_pairs
    )


def disguised(source: str) -> str:
    """Return the same code with other names, numbers, comments, layout and order."""
    for old, new in (
        ("value", "left"),
        ("gate", "right"),
        ("module", "net"),
        ("total", "s"),
        ("bound", "limit"),
        ("1.0", "1.00"),
    ):
        source = re.sub(rf"\b{old}\b", new, source)
    source = re.sub(r"(?m)^( *)# .*$", r"\1# something else", source)
    head, glu, flow = re.split(r"(?m)^(?=class |def )", source)
    return f"{head}\n\n{flow}\n\n\n{glu}"


def test_a_copy_with_other_names_comments_and_order_is_found() -> None:
    (pair,) = similar({"ann": SOLUTION, "bea": disguised(SOLUTION)}).pairs
    assert (pair.exercise, pair.left, pair.right) == ("glu", "ann", "bea")
    assert pair.similarity > 0.9
    assert pair.left_digest == source_digest(SOLUTION.encode())


def test_the_lines_of_a_pair_mark_the_shared_code() -> None:
    (pair,) = similar({"ann": SOLUTION, "bea": disguised(SOLUTION)}).pairs
    for source, spans in (
        (SOLUTION, pair.left_lines),
        (disguised(SOLUTION), pair.right_lines),
    ):
        lines = source.split("\n")
        marked = "\n".join(line for first, last in spans for line in lines[first - 1 : last])
        assert "uniform_" in marked
        assert "zero_grad" in marked
        assert "Source: Dauphin" not in marked
        assert spans == tuple(sorted(spans))


@pytest.mark.parametrize("exercise", ["glu", "gelu", "grad_norms", "collate"])
def test_right_answers_by_different_authors_are_not_similar(exercise: str) -> None:
    files = right_answers(exercise)
    stub = COURSE.stub(COURSE.exercise(exercise)).source.decode()
    found = similar(files, stub=stub)
    assert found.exercises[0].files == len(files) > 3
    # `compact` is the solution again, as a base for wrong answers.
    assert [p for p in found.pairs if "compact" not in (p.left, p.right)] == []


def test_code_of_the_stub_is_not_compared() -> None:
    ending = "\n\ndef extra_{0}():\n    return [{0}.{0} for {0} in range(3)]\n"
    found = similar(
        {"ann": STUB, "bea": STUB + ending.format("a"), "cas": STUB + ending.format("b")}
    )
    assert found.pairs == ()
    (survey,) = found.exercises
    # An unchanged stub is not counted as a file. The two others have too little code of their own.
    assert (survey.files, survey.short, survey.alike) == (2, 2, 0)


def test_code_shared_by_most_of_the_class_makes_no_pairs() -> None:
    chance = random.Random(0)

    def of_a_student() -> str:
        # Everybody has the code of the lecture. The rest is each student's own.
        own = "".join(
            f"def f{n}(x):\n    return x.{chance.choice(ascii_lowercase)}(x.{chance.choice(ascii_lowercase)}"
            f" {chance.choice('+-*/%')} x[{chance.choice(['x', 'len(x)', 'x.a', '-x'])}]"
            f" {chance.choice('+-*/%')} sum(x.{chance.choice(ascii_lowercase)}))\n"
            for n in range(2)
        )
        return SOLUTION + own

    everybody = {f"s{n:02}": of_a_student() for n in range(12)}
    assert similar(everybody, threshold=0.4).pairs == ()
    few = dict(list(everybody.items())[:4])
    assert len(similar(few, threshold=0.4).pairs) == 6, (
        "a few students with the same code may be a group"
    )


def test_a_pair_in_a_class_is_found_among_the_others() -> None:
    files = {**right_answers(), "zoe": disguised(right_answers()["convolution"])}
    # It is the solution again, as a base for wrong answers.
    del files["compact"]
    (pair,) = similar(files).pairs
    assert (pair.left, pair.right) == ("convolution", "zoe")


@pytest.mark.thorough
def test_order_and_hash_seed_do_not_matter() -> None:
    files = {**right_answers(), "zoe": disguised(SOLUTION)}
    backwards = dict(reversed(files.items()))
    assert similar(files, threshold=0.1) == similar(backwards, threshold=0.1)
    code = (
        "import sys, msgspec; from tests.grader.gradebook.test_similarity import SOLUTION, disguised, similar\n"
        "found = similar({'a': SOLUTION, 'b': disguised(SOLUTION)})\n"
        "sys.stdout.buffer.write(msgspec.json.encode(found))"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            check=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(runs) == 1
    assert b'"left":"a"' in runs.pop()


def test_only_the_most_similar_pairs_are_kept_and_all_are_counted() -> None:
    files = {f"s{n}": SOLUTION + f"\n\ndef own_{n}():\n    pass\n" for n in range(6)}
    found = similar(files, most_pairs=4)
    assert found.exercises[0].alike == 15
    assert len(found.pairs) == 4
    shares = [pair.similarity for pair in found.pairs]
    assert shares == sorted(shares, reverse=True)


@pytest.mark.parametrize(
    "source",
    [
        b"",
        b"\x00\xff\xfe" * 100,
        b"def f(:\n  '''never closed\n" * 50,
        b"(" * 50_000,
        b"x = 1\n" * 100_000,
        b"'" + b"\\" * 60_000,
        "\u202eevil = '\U0001f600'\n".encode() * 1000,
        b"x" * 3_000_000,
    ],
    ids=["empty", "bytes", "broken", "deep", "long", "backslashes", "odd", "one line"],
)
def test_no_file_is_too_broken_to_be_compared(source: bytes) -> None:
    fingerprint = Reader(b"").read(source)
    assert len(fingerprint.runs) == max(len(fingerprint.lines) - 7, 0)
    found = find_similar(
        [entry(student="a"), entry(student="b")], lambda entry: {"glu": source}, {"glu": b"pass\n"}
    )
    assert all(pair.similarity <= 1 for pair in found.pairs)


def test_full_width_letters_are_read_as_the_plain_ones() -> None:
    wide = SOLUTION.replace(".chunk", ".\uff43\uff48unk").replace("torch.", "torch.\uff53")
    plain = SOLUTION.replace("torch.", "torch.s")
    assert not wide.isascii()
    (pair,) = similar({"ann": plain, "bea": wide}).pairs
    assert pair.similarity == 1


def test_an_exercise_that_nobody_handed_in_has_an_empty_survey() -> None:
    found = find_similar([entry(student="a")], lambda entry: {}, {"glu": STUB.encode()})
    (survey,) = found.exercises
    assert (survey.exercise, survey.files, survey.short, survey.alike) == ("glu", 0, 0, 0)
    assert found.pairs == ()


def test_one_member_represents_a_team_in_team_exercises() -> None:
    class_ = [
        entry(exercise(checked(), name=name), student=who, ids={"team": "red"} if team else {})
        for who, team, name in (("ada", 1, "glu"), ("bob", 1, "glu"), ("eve", 0, "glu"))
    ]
    files = {"glu": SOLUTION.encode(), "relu": SOLUTION.encode()}
    found = [(n, who) for n, who, _ in answers(class_, lambda _: files, {}, of_teams=["glu"])]
    assert [who for name, who in found if name == "glu"] == ["ada", "eve"]
    assert [who for name, who in found if name == "relu"] == ["ada", "bob", "eve"]


def test_a_single_file_has_no_pairs() -> None:
    found = similar({"ada": SOLUTION})
    assert found.exercises[0].files == 1
    assert found.pairs == ()


def test_a_written_similarity_is_read_back(tmp_path: Path) -> None:
    assert read_similar(tmp_path) is None
    found = similar({"ann": SOLUTION, "bea\u202e": disguised(SOLUTION)})
    path = write_similar(tmp_path, found)
    assert path == tmp_path / "similar.json"
    assert read_similar(tmp_path) == found
    assert msgspec.json.decode(path.read_bytes())["pairs"][0]["exercise"] == "glu"


def test_the_files_are_written_as_dolos_and_jplag_read_them(tmp_path: Path) -> None:
    files = {"ann": b"a = 1\n", "Bea Li": b"b = 2\n"}
    entries = [entry(student=student) for student in files]
    folder = tmp_path / "compared"
    count = write_files(
        folder, entries, lambda entry: {"glu": files[entry.student.id]}, {"glu": b"stub\n"}
    )
    assert count == 2
    assert (folder / "glu/stub/glu.py").read_bytes() == b"stub\n"
    with (folder / "glu/info.csv").open(encoding="utf-8", newline="") as table:
        rows = list(csv.DictReader(table))
    assert [(folder / "glu" / row["filename"]).read_bytes() for row in rows] == [*files.values()]
    assert rows[0] == {"filename": "submissions/ann/glu.py", "full_name": "ann"}
    with pytest.raises(GraderError, match="is not empty: name a new folder"):
        write_files(folder, entries, lambda _: {}, {})


def test_a_damaged_file_is_reported_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "similar.json").write_text('{"pairs": 3}')
    with pytest.raises(GraderError, match="Run `grade similar` again, or delete the file"):
        read_similar(tmp_path)


@pytest.mark.parametrize(
    ("written", "other"),
    [
        ("return a * b + c", "return c + b * a"),
        ("return torch.exp(x).sum()", "return torch.sum(x.exp())"),
        ("return x.t() @ w", "return torch.matmul(x.T, w)"),
        (
            "if n > 3:\n        raise ValueError('n')\n    return n",
            "if 3 < n:\n        raise ValueError(f'{n}!')\n    return n",
        ),
        ("return n", "'''A docstring.'''\n    import os\n    m: int\n    pass\n    return n"),
        ("n += 1\n    return n", "n = n + 1\n    return n"),
    ],
)
def test_rewritings_that_disguise_a_copy_read_the_same(written: str, other: str) -> None:
    stub = b"import torch\ndef given(n):\n    raise NotImplementedError\ndef f(n): ...\n"

    def runs(body: str) -> list[int]:
        source = f"import torch\n\ndef given(n, x, a, b, c, w):\n    q(n)\n    {body}\n"
        return list(map(int, Reader(stub).read(source.encode()).runs))

    assert runs(written) == runs(other) != runs("return n[0] - 3 / x.cos() + [i for i in w]")


def test_the_threshold_is_learned_from_the_class_and_a_copy_exceeds_it() -> None:
    files = {name: source for name, source in right_answers().items() if name != "compact"}
    assert similar(files).groups == ()
    found = similar({**files, "zoe": disguised(files["convolution"])})
    (survey,) = found.exercises
    assert survey.basis is Basis.LEARNED
    assert survey.bulk_end is not None and 0.2 < survey.bulk_end <= survey.threshold < 0.8
    (group,) = found.groups
    assert group.students == ("convolution", "zoe")
    assert group.exercises[0].alone


def test_a_small_class_has_a_fixed_threshold() -> None:
    (survey,) = similar({"ann": SOLUTION, "bea": disguised(SOLUTION)}).exercises
    assert (survey.basis, survey.threshold, survey.bulk_end) == (Basis.FIXED, 0.6, None)


def test_no_pairs_are_reported_if_equal_files_are_common() -> None:
    answers = [s for name, s in right_answers().items() if name != "compact"][:3]
    found = similar({f"s{n:02}": answers[n % 3] for n in range(30)})
    (survey,) = found.exercises
    assert survey.basis is Basis.NONE
    assert found.pairs == () == found.groups
    assert survey.at_other_thresholds["80 %"] > 0


def test_a_unique_equal_pair_is_reported_even_if_similar_files_are_common() -> None:
    files = {name: source for name, source in right_answers().items() if name != "compact"}
    same = next(iter(files.values()))
    copies = {f"s{n:02}": same for n in range(2 * len(files))}
    found = similar({**files, **copies, "zoe": disguised(files["convolution"])})
    assert found.exercises[0].basis is Basis.NONE
    (group,) = found.groups
    assert group.students == ("convolution", "zoe")
    assert group.exercises[0].alone


def test_each_exercise_of_a_group_lists_who_is_similar_to_whom() -> None:
    """A group of four students may include two who share no file."""
    pairs = {("ann", "bob"): 0.9, ("ann", "cem"): 0.8, ("bob", "cem"): 0.7, ("cem", "dee"): 0.95}
    found = [(c.students, c.lowest, c.highest) for c in circles(pairs)]
    assert found == [(("ann", "bob", "cem"), 0.7, 0.9), (("cem", "dee"), 0.95, 0.95)]
    everybody = {(f"s{n}", f"s{m}"): 1.0 for n in range(8) for m in range(n + 1, 8)}
    assert [len(circle.students) for circle in circles(everybody)] == [8]
    del everybody["s0", "s7"]
    parts = [set(circle.students) for circle in circles(everybody)]
    assert not any({"s0", "s7"} <= part for part in parts)
    assert all(any({*pair} <= part for part in parts) for pair in everybody)
    assert all((a, b) in everybody for part in parts for a in part for b in part if a < b)


def group_of_four() -> Similarity:
    def part(exercise: str, *alike: tuple[str, ...]) -> GroupExercise:
        made = tuple(AlikeCircle(students=each, lowest=0.9, highest=0.9) for each in alike)
        return GroupExercise(
            exercise=exercise,
            pairs=len(made),
            lowest=0.9,
            highest=0.9,
            alone=True,
            circles=made,
        )

    four = ("ann", "bob", "cem", "dee")
    parts = part("glu", ("ann", "bob"), ("cem", "dee")), part("gelu", ("bob", "cem"))
    group = AlikeGroup(students=four, exercises=(*parts, part("fit", four)))
    return Similarity(exercises=(), pairs=(), groups=(group,))


def test_a_group_is_shown_with_its_circles_for_each_exercise() -> None:
    console = Console(file=io.StringIO(), width=100)
    show_similarity(console, group_of_four(), Path("similar.json"), {})
    shown = console.file.getvalue()  # type: ignore[attr-defined]  # it is a StringIO
    lines = [line.strip() for line in shown.splitlines()]
    assert lines[:5] == [
        "ann  bob  cem  dee: alike in 3 exercises",
        "90 %  glu  ann, bob",
        "90 %  glu  cem, dee",
        "90 %  gelu  bob, cem",
        "90 %  fit",
    ]


def test_a_group_narrowed_to_an_exercise_keeps_only_students_similar_in_it() -> None:
    (group,) = group_of_four().only(["gelu"]).groups
    assert group.students == ("bob", "cem")


def test_a_chain_is_not_one_group() -> None:
    chain = {("a", "b"): 1.0, ("b", "c"): 0.9, ("c", "d"): 0.8, ("d", "e"): 0.7, ("e", "f"): 0.6}
    groups = grouped(chain)
    assert max(map(len, groups)) < 4
    assert all(any({*pair} <= {*group} for group in groups) for pair in chain)
    everybody = {(a, b): 1.0 for a in "abcde" for b in "abcde" if a < b}
    assert grouped(everybody) == [tuple("abcde")]


@pytest.mark.parametrize(
    "source",
    [
        "x = " + "+".join(["a"] * 20_000),
        "x = " + "(" * 90 + "a" + ")" * 90,
        "\n".join(f"a{n} = a{n + 1}" for n in range(8_000)),
        "def f():\n" + "\n".join(f"    a{n + 1} = a{n} + 1" for n in range(5_000)),
        "x = " + "-" * 3_000 + "1",
        "x = a" + ".b" * 20_000,
        "x = f" + "(1)" * 20_000,
    ],
    ids=["sum", "parentheses", "chain", "values", "signs", "attributes", "calls"],
)
def test_deep_or_long_code_does_not_hide_a_copy_beside_it(source: str) -> None:
    odd = f"{disguised(SOLUTION)}\n{source}\n"
    (pair,) = similar({"ann": SOLUTION, "bea": odd}).pairs or similar({"a": odd, "b": odd}).pairs
    assert pair.similarity > 0.9
