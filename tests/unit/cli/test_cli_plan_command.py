import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from harmony_cli.main import app

JOB = """\
apiVersion: harmony.dev/v1alpha1
kind: HarmonyJob
metadata: {{name: {name}}}
spec:
  workers: {{template: {{spec: {{containers: [{{name: worker, image: i, command: [x]}}]}}}}}}
  {more}
"""
HINT = "profile: {computeMilliseconds: 100, pullMilliseconds: 50, pushMilliseconds: 50}"
MEASURED = {"computeMicroseconds": 50000, "pullMicroseconds": 25000, "pushMicroseconds": 25000}


def harmony(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def pair(tmp_path: Path) -> list[Path]:
    files = []
    for name in ("a", "b"):
        file = tmp_path / f"{name}.yaml"
        file.write_text(JOB.format(name=name, more=HINT))
        files.append(file)
    return files


def test_valid_manifests_are_counted_and_what_is_left_aside_named(pair: list[Path]) -> None:
    result = harmony("validate", *pair)
    assert result.exit_code == 0
    assert "a: a local run leaves aside image" in result.stdout
    assert "2 jobs are valid" in result.stdout


@pytest.mark.parametrize("command", ["validate", "plan"])
def test_problems_go_to_stderr_with_exit_code_1(tmp_path: Path, command: str) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(JOB.format(name="a", more="iteration: 3"))
    result = harmony(command, file)
    assert result.exit_code == 1
    assert "job.yaml:6: spec.iteration: unknown field: did you mean 'iterations'?" in result.stderr
    assert "1 problem" in result.stderr
    assert not result.stdout


def test_an_explained_plan_has_one_sentence_for_each_job(tmp_path: Path, pair: list[Path]) -> None:
    alone = tmp_path / "c.yaml"
    alone.write_text(JOB.format(name="c", more="sharing: {policy: Exclusive}"))
    result = harmony("plan", *pair, alone, "--slots", "1", "--explain")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "a: shares cpu-slot-0 with b: predicted from hints cycle 200 ms for 400 ms in turn, "
        "0 % slower than alone",
        "b: shares cpu-slot-0 with a: predicted from hints cycle 200 ms for 400 ms in turn, "
        "0 % slower than alone",
        "c: waits until a slot is free: sharing.policy of c is Exclusive",
    ]


def test_a_plan_shows_who_shares_what_and_why(pair: list[Path]) -> None:
    result = harmony("plan", *pair, "--slots", "1")
    assert result.exit_code == 0
    words = " ".join(result.stdout.split())
    assert "cycle 200 ms, in turn 400 ms, COMP 100 %, NET 100 %" in words
    assert "shares cpu-slot-0 with b: predicted from hints cycle 200 ms" in words


def test_the_plan_as_json_holds_the_same(pair: list[Path]) -> None:
    decision = json.loads(harmony("plan", *pair, "--slots", "1", "--json").stdout)
    [group] = decision["groups"]
    assert [member["job"] for member in group["members"]] == ["a", "b"]
    assert group["prediction"]["cycle_seconds"] == pytest.approx(0.2)
    assert decision["waiting"] == []


@pytest.mark.parametrize(
    "profiles",
    [
        {"a": MEASURED, "b": MEASURED, "stranger": MEASURED},
        {
            "kind": "run",
            "jobs": [{"name": name, "profile": MEASURED} for name in "ab"]
            + [{"name": "c", "profile": None}],
        },
    ],
)
def test_measured_profiles_replace_the_hints(
    pair: list[Path], tmp_path: Path, profiles: object
) -> None:
    file = tmp_path / "profiles.json"
    file.write_text(json.dumps(profiles))
    result = harmony("plan", *pair, "--slots", "1", "--profiles", file, "--json")
    [group] = json.loads(result.stdout)["groups"]
    assert group["prediction"]["cycle_seconds"] == pytest.approx(0.1)


@pytest.mark.parametrize("content", ["", "[]", '{"a": 3}', '{"jobs": [{}]}'])
def test_a_file_without_profiles_says_what_it_should_hold(
    pair: list[Path], tmp_path: Path, content: str
) -> None:
    file = tmp_path / "profiles.json"
    file.write_text(content)
    result = harmony("plan", *pair, "--profiles", file)
    assert result.exit_code == 2
    assert "holds no profiles" in " ".join(result.stderr.replace("│", " ").split())


def test_memory_limits_the_slots(pair: list[Path]) -> None:
    decision = json.loads(harmony("plan", *pair, "--memory", "4Gi", "--json").stdout)
    assert "declares no sharing.deviceMemory" in decision["waiting"][0]["reason"]
    assert harmony("plan", *pair, "--memory", "4GB").exit_code == 2
