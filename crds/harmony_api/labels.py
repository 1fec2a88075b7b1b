"""Keys and fixed values of the labels and annotations on everything that the operator makes.

Selectors, builders, the chart and the dashboards must spell them alike. Objects are found by
these labels alone, so every child of a job carries all of JOB_NAME, ROLE and INDEX.
"""

from typing import Final, Literal

DOMAIN: Final = "harmony.dev"

JOB_NAME: Final = "harmony.dev/job-name"
"""Label: the HarmonyJob that the object belongs to."""

JOB_UID: Final = "harmony.dev/job-uid"
"""Label: that job's uid; tells a job from an earlier one of the same name."""

ROLE: Final = "harmony.dev/role"
"""Label: a `Role`."""

INDEX: Final = "harmony.dev/index"
"""Label: index of the worker or the server, from 0."""

GROUP: Final = "harmony.dev/group"
"""Label: name of the HarmonyGroup for which a worker pod, a claim or a reservation was made."""

GROUP_NAMESPACE: Final = "harmony.dev/group-namespace"
"""Label: namespace of that group, on objects that live in another one and are swept by label."""

SLOT: Final = "harmony.dev/slot"
"""Annotation: name of the slot that a worker pod uses, or that a claim or reservation binds."""

NODE_PLAN: Final = "harmony.dev/node-plan"
"""Annotation: the NodePlan of a worker pod as JSON; a downward-API file shows it."""

STOP_TIME: Final = "harmony.dev/stop-time"
"""Annotation: when a worker pod was told to stop; it is deleted if it does not in time."""

DEVICES: Final = "harmony.dev/devices"
"""Annotation: UUIDs, separated by commas: those that a reservation pod reports for its slot, and
those of them that a worker was made with."""

Role = Literal["worker", "server", "service", "claim", "reservation"]
"""What an object is to its job or group."""

APP_NAME: Final = "app.kubernetes.io/name"
APP_INSTANCE: Final = "app.kubernetes.io/instance"
APP_COMPONENT: Final = "app.kubernetes.io/component"
APP_PART_OF: Final = "app.kubernetes.io/part-of"
APP_MANAGED_BY: Final = "app.kubernetes.io/managed-by"

HARMONY: Final = "harmony"
"""Value of APP_NAME and APP_PART_OF."""

OPERATOR: Final = "harmony-operator"
"""Value of APP_MANAGED_BY."""

QUEUE_NAME: Final = "kueue.x-k8s.io/queue-name"
"""Kueue's label of a job that its queue suspends and resumes; passed on, never written."""

SYSTEM_NAMESPACE: Final = "harmony-system"
"""Where the operator runs and cross-namespace objects live, unless it is told otherwise."""
