"""The mirror: never back in time, every change told once, look-ups that agree with the whole."""

from hypothesis import given, settings
from hypothesis import strategies as st

from harmony_operator.mirror import Change, Mirror
from harmony_operator.observed import ObjectKey


def pod(name: str, uid: str, version: int, *, job: str = "a", phase: str = "Pending") -> dict:
    return {
        "metadata": {
            "namespace": "team",
            "name": name,
            "uid": uid,
            "resourceVersion": str(version),
            "labels": {
                "harmony.dev/role": "worker",
                "harmony.dev/job-name": job,
                "harmony.dev/index": "0",
            },
        },
        "status": {"phase": phase},
    }


def mirror() -> tuple[Mirror, list[Change]]:
    changes: list[Change] = []
    return Mirror(changes.append), changes


KEY = ObjectKey("team", "p")


def test_older_news_do_not_undo_the_answer_of_a_write() -> None:
    seen, changes = mirror()
    seen.observe("Pod", pod("p", "u1", 7, phase="Running"))
    seen.observe("Pod", pod("p", "u1", 5))
    assert seen.pods[KEY].phase == "Running"
    assert len(changes) == 1


def test_what_was_deleted_does_not_come_back_with_late_news() -> None:
    seen, _ = mirror()
    seen.observe("Pod", pod("p", "u1", 5))
    seen.forget("Pod", KEY, "u1")
    seen.observe("Pod", pod("p", "u1", 6, phase="Running"))
    assert KEY not in seen.pods


def test_the_deletion_of_an_object_does_not_touch_its_successor() -> None:
    seen, _ = mirror()
    seen.observe("Pod", pod("p", "u1", 5))
    seen.observe("Pod", pod("p", "u2", 9))
    seen.forget("Pod", KEY, "u1")
    assert seen.pods[KEY].uid == "u2"


def test_a_change_that_no_decision_sees_is_told_to_nobody() -> None:
    seen, changes = mirror()
    seen.observe("Pod", pod("p", "u1", 5))
    heartbeat = pod("p", "u1", 6)
    heartbeat["metadata"]["managedFields"] = [{"manager": "kubelet"}]
    seen.observe("Pod", heartbeat)
    assert [change.after is not None for change in changes] == [True]
    assert seen.known("Pod") == {KEY: ("u1", 6)}


@settings(max_examples=200)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["observe", "forget"]),
            st.sampled_from(["p", "q", "r"]),
            st.sampled_from(["u1", "u2", "u3"]),
            st.integers(1, 9),
            st.sampled_from(["a", "b"]),
        ),
        max_size=30,
    )
)
def test_look_ups_by_job_agree_with_all_pods(
    news: list[tuple[str, str, str, int, str]],
) -> None:
    told: dict[ObjectKey, object] = {}

    def tell(change: Change) -> None:
        assert told.get(change.key) == change.before
        told[change.key] = change.after

    seen = Mirror(tell)
    for what, name, uid, version, job in news:
        if what == "observe":
            seen.observe("Pod", pod(name, f"{name}-{uid}", version, job=job))
        else:
            seen.forget("Pod", ObjectKey("team", name), f"{name}-{uid}")
    assert {key: one for key, one in told.items() if one is not None} == seen.pods
    for job in ("a", "b"):
        expected = {key for key, one in seen.pods.items() if one.job == job}
        assert set(seen.job_state(ObjectKey("team", job), 0.0).pods) == expected
    assert seen.state(0.0).pods == seen.pods


def test_a_job_sees_who_is_on_the_slots_of_its_group() -> None:
    seen, _ = mirror()
    for name, slot in (("p", "n/cpu-0"), ("q", "n/cpu-1")):
        raw = pod(name, name, 1, job="other")
        raw["metadata"]["annotations"] = {"harmony.dev/slot": slot}
        seen.observe("Pod", raw)
    slot = {"name": "n/cpu-0", "node": "n", "gpus": 0, "deviceKind": "cpu"}
    member = {"job": "a", "namespace": "team", "jobUid": "u", "slotIndices": [0], "order": 0}
    spec = {"generation": 1, "slots": [slot], "members": [member]}
    metadata = {"namespace": "team", "name": "g", "uid": "g", "resourceVersion": "1"}
    seen.observe("HarmonyGroup", {"metadata": metadata, "spec": spec})
    assert seen.members_on("n/cpu-0") == {ObjectKey("team", "a")}
    assert set(seen.job_state(ObjectKey("team", "a"), 0.0).pods) == {KEY}
    seen.forget("Pod", KEY, "p")
    assert not seen.job_state(ObjectKey("team", "a"), 0.0).pods


def test_a_pool_shows_the_devices_of_its_newest_generation_only() -> None:
    seen, _ = mirror()
    for name, generation, device in (("s1", 1, "old"), ("s2", 2, "new")):
        seen.observe(
            "ResourceSlice",
            {
                "metadata": {"name": name, "uid": name, "resourceVersion": "1"},
                "spec": {
                    "driver": "gpu.example.com",
                    "nodeName": "n",
                    "pool": {"name": "n", "generation": generation},
                    "devices": [{"name": device}],
                },
            },
        )
    assert [device.id for device in seen.state(0.0).devices] == ["gpu.example.com/n/new"]


def test_a_group_concerns_a_job_until_its_last_pod_of_that_group_is_gone() -> None:
    seen, _ = mirror()
    left = {
        "metadata": {"namespace": "team", "name": "g-1", "uid": "g", "resourceVersion": "1"},
        "spec": {"generation": 1, "slots": [{"name": "n/cpu-0", "node": "n"}], "members": []},
    }
    seen.observe("HarmonyGroup", left)
    made_for_it = pod("p", "u1", 5)
    made_for_it["metadata"]["labels"]["harmony.dev/group"] = "g-1"
    seen.observe("Pod", made_for_it)
    job = ObjectKey("team", "a")
    assert list(seen.job_state(job, 0.0).groups) == [ObjectKey("team", "g-1")]
    seen.forget("Pod", KEY, "u1")
    assert not seen.job_state(job, 0.0).groups
