"""What the operator says about itself to Prometheus; every name begins with `harmony_operator_`.

Nothing here has a label that grows with the number of jobs.
"""

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

API_REQUESTS: Final = Counter(
    "harmony_operator_api_requests",
    "Requests to the API server, watches left out.",
    ("verb", "kind", "code"),
)
PASS_SECONDS: Final = Histogram(
    "harmony_operator_pass_seconds",
    "Time of one pass over a job or a group, its requests included.",
    ("controller",),
    buckets=(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0),
)
QUEUE_LENGTH: Final = Gauge(
    "harmony_operator_queue_length", "Keys that wait for a pass.", ("controller",)
)
PLANNING_SECONDS: Final = Histogram(
    "harmony_operator_planning_seconds",
    "Time in which one plan was made, from snapshot to wanted groups.",
    buckets=(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0),
)
JOBS: Final = Gauge("harmony_operator_jobs", "HarmonyJobs by state.", ("state",))
GROUPS: Final = Gauge("harmony_operator_groups", "HarmonyGroups.")
LEADING: Final = Gauge("harmony_operator_leading", "1 while this process holds the Lease.")
SCRAPES: Final = Counter("harmony_operator_scrapes", "Requests to workers' sidecars.", ("outcome",))
EVENTS: Final = Counter("harmony_operator_events", "Events posted about jobs.", ("type", "reason"))
