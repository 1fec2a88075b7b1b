from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmony_cli.local_view import left_aside
from harmony_cli.manifest import ManifestError, load_manifests
from harmony_cli.yaml_document import Document, read_documents

VALID = """\
apiVersion: harmony.dev/v1alpha1
kind: HarmonyJob
metadata:
  name: {name}
spec:
  workers:
    template:
      spec:
        containers:
        - name: worker
          command: [python, train.py]
"""


def write(folder: Path, text: str | bytes, name: str = "job.yaml") -> Path:
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def problems(*files: Path) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        load_manifests(files)
    text = [str(problem) for problem in caught.value.problems]
    return [line.replace(f"{files[0].parent}/", "") for line in text]


def valid(name: str = "a") -> str:
    return VALID.format(name=name)


def test_jobs_come_in_the_order_of_files_and_documents(tmp_path: Path) -> None:
    first = write(tmp_path, f"---\n{valid('a')}---\n\n---\n{valid('b')}", "1.yaml")
    second = write(tmp_path, valid("c"), "2.yaml")
    loaded = load_manifests([first, second])
    assert [(each.job.name, each.file.name, each.line) for each in loaded] == [
        ("a", "1.yaml", 2),
        ("b", "1.yaml", 16),
        ("c", "2.yaml", 1),
    ]


def test_every_problem_of_every_file_is_told_at_once(tmp_path: Path) -> None:
    first = write(
        tmp_path,
        valid("A").replace("spec:\n  workers", "spec:\n  suspend: 'no'\n  workers", 1)
        + "          comand: [x]\n",
        "1.yaml",
    )
    second = write(tmp_path, valid("b") + "  sharing: {policy: shared}\n", "2.yaml")
    assert problems(first, second) == [
        "1.yaml:4: metadata.name: must be lower-case letters, digits and '-', begin with a "
        "letter and not end with '-': it is 'A'",
        "1.yaml:6: spec.suspend: must be true or false: it is 'no'",
        "1.yaml:13: spec.workers.template.spec.containers[0].comand: unknown field: "
        "did you mean 'command'?",
        "2.yaml:12: spec.sharing.policy: must be 'Shared' or 'Exclusive': it is 'shared'",
    ]


@pytest.mark.parametrize(
    ("addition", "problem"),
    [
        ("  itterations: 3", "12: spec.itterations: unknown field: did you mean 'iterations'?"),
        ("  xyz: 3", "12: spec.xyz: unknown field"),
        (
            "  iterations: '3'",
            "12: spec.iterations: must be a whole number: write 3 without quotes",
        ),
        ("  iterations: 1.5", "12: spec.iterations: must be a whole number: it is 1.5"),
        ("  iterations: 0", "12: spec.iterations: must be greater than or equal to 1: it is 0"),
        ("  suspend: 'true'", "12: spec.suspend: must be true or false: write true without quotes"),
        (
            "  priorityClassName: 3",
            "12: spec.priorityClassName: must be a text: quote it, as in '3'",
        ),
        (
            "  priorityClassName: yes",
            "12: spec.priorityClassName: must be a text: quote it, as in 'true'",
        ),
        ("  sharing: []", "12: spec.sharing: must be a mapping of fields: it is a list"),
        ("  sharing:", "12: spec.sharing: must be a mapping of fields: it is empty"),
        (
            "  sharing:\n    deviceMemory:\n      footprint: 6GB",
            "14: spec.sharing.deviceMemory.footprint: '6GB' has no unit that Kubernetes knows: "
            "did you mean 'Gi' or 'G'?",
        ),
        (
            "  sharing: {deviceMemory: {footprint: 1Gi, minimum: 2Gi}}",
            "12: spec.sharing.deviceMemory: minimum (2Gi) is above footprint (1Gi): "
            "lower minimum or raise footprint",
        ),
        (
            "  sharing: {deviceMemory: {minimum: 2Gi}}",
            "12: spec.sharing.deviceMemory.footprint: is required",
        ),
        (
            "  failurePolicy: {rules: [{action: Fail, onExitCodes: {operator: In, values: []}}]}",
            "12: spec.failurePolicy.rules[0].onExitCodes.values: must have at least 1: it has 0",
        ),
        ("  suspend: true\n  suspend: false", "13: spec.suspend: given twice (first on line 12)"),
        ("  3: x", "12: spec: a field's name must be a text: quote it"),
        ("  <<: {a: b}", "12: spec.<<: unknown field"),
    ],
)
def test_a_problem_names_file_line_field_and_what_to_change(
    tmp_path: Path, addition: str, problem: str
) -> None:
    assert problems(write(tmp_path, f"{valid()}{addition}\n")) == [f"job.yaml:{problem}"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "job.yaml: is empty: it should hold a HarmonyJob"),
        ("# nothing\n---\n", "job.yaml: is empty: it should hold a HarmonyJob"),
        (
            "- a\n",
            "job.yaml:1: is no HarmonyJob: it should begin with 'apiVersion: harmony.dev/v1alpha1'",
        ),
        (
            "\napiVersion: batch/v1\nkind: Job\n",
            "job.yaml:3: kind: is 'Job': Harmony reads 'kind: HarmonyJob' only",
        ),
        (b"# latin\nname: \xe9\n", "job.yaml:2: is not UTF-8: save it as UTF-8 text"),
        ("a: \x01", "job.yaml:1: no valid YAML: special characters are not allowed"),
        ("a: 1\n b: 2\n", "job.yaml:2: no valid YAML: mapping values are not allowed here"),
    ],
)
def test_a_file_that_holds_no_job_says_what_it_is(
    tmp_path: Path, text: str | bytes, problem: str
) -> None:
    assert problems(write(tmp_path, text)) == [problem]


def test_a_wrong_version_does_not_hide_the_other_problems(tmp_path: Path) -> None:
    text = valid().replace("v1alpha1", "v2") + "  xyz: 3\n"
    assert problems(write(tmp_path, text)) == [
        "job.yaml:1: apiVersion: must be 'harmony.dev/v1alpha1': it is 'harmony.dev/v2'",
        "job.yaml:12: spec.xyz: unknown field",
    ]


def test_two_jobs_of_one_name_are_both_named(tmp_path: Path) -> None:
    first = write(tmp_path, valid("a"), "1.yaml")
    second = write(tmp_path, valid("a"), "2.yaml")
    [problem] = problems(first, second)
    assert problem == (
        "2.yaml:4: metadata.name: job 'a' is already in 1.yaml:4: rename one of them"
    )


def test_a_missing_file_and_a_folder_cannot_be_read(tmp_path: Path) -> None:
    missing = tmp_path / "missing.yaml"
    folder = tmp_path / "folder"
    folder.mkdir()
    assert problems(missing, folder) == [
        "missing.yaml: cannot be read: No such file or directory",
        "folder: cannot be read: Is a directory",
    ]


def test_an_alias_that_contains_itself_is_a_problem_and_no_endless_loop(tmp_path: Path) -> None:
    assert problems(write(tmp_path, "&a [*a]\n"))[0] == (
        "job.yaml:1: [0]: an alias that contains itself"
    )


def test_deep_nesting_is_a_problem_and_no_crash(tmp_path: Path) -> None:
    assert problems(write(tmp_path, "[" * 5000)) == ["job.yaml:1: no valid YAML: nested too deeply"]


def test_dates_stay_texts_and_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    text = "\ufeff" + valid().replace("spec:", "  annotations: {at: 2030-01-01}\nspec:", 1)
    [manifest] = load_manifests([write(tmp_path, text)])
    assert manifest.job.metadata.model_extra == {"annotations": {"at": "2030-01-01"}}


def test_a_problem_can_be_made_at_any_field_of_a_valid_manifest(tmp_path: Path) -> None:
    [manifest] = load_manifests([write(tmp_path, valid())])
    path = ("spec", "workers", "template", "spec", "containers", 0, "command", 1)
    assert str(manifest.problem(path, "is missing")).endswith(
        "job.yaml:11: spec.workers.template.spec.containers[0].command[1]: is missing"
    )


def test_what_a_local_run_leaves_aside_is_named(tmp_path: Path) -> None:
    text = valid() + (
        "          image: i\n"
        "          env: [{name: S, valueFrom: {secretKeyRef: {name: s, key: k}}}]\n"
        "          resources: {limits: {cpu: 1}}\n"
        "        - {name: logs}\n"
        "        nodeSelector: {a: b}\n"
        "  checkpoint: {volumeClaimName: c}\n"
    )
    [manifest] = load_manifests([write(tmp_path, text)])
    assert left_aside(manifest.job) == [
        "checkpoint.volumeClaimName",
        "container logs",
        "image",
        "nodeSelector",
        "resources",
        "valueFrom",
    ]


def test_what_a_local_run_leaves_aside_of_the_spec_is_named(tmp_path: Path) -> None:
    text = valid().replace("  workers:\n", "  workers:\n    minReplicas: 1\n    maxReplicas: 2\n")
    text += (
        "  priorityClassName: p\n"
        "  ttlSecondsAfterFinished: 60\n"
        "  completion: {cleanServers: false}\n"
        "  sharing: {hostMemory: {footprint: 1Gi}, store: {capacity: 1Gi}}\n"
        "  failurePolicy: {rules: [{action: Restart, onPodConditions: [{type: T}]}]}\n"
    )
    [manifest] = load_manifests([write(tmp_path, text)])
    assert left_aside(manifest.job) == [
        "completion.cleanServers",
        "onPodConditions",
        "priorityClassName",
        "sharing.hostMemory",
        "sharing.store",
        "ttlSecondsAfterFinished",
        "workers.maxReplicas",
    ]


@given(st.text(alphabet=" \n-:[]{}&*!|>'\"#%@,abk01?", max_size=60))
def test_any_text_is_documents_or_faults_with_lines(text: str) -> None:
    lines = text.count("\n") + 1
    for found in read_documents(text):
        faults = found.faults if isinstance(found, Document) else [found]
        assert all(1 <= fault.line <= lines + 1 for fault in faults)
