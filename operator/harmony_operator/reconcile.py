"""One pass over one job: what is seen becomes what to do, by pure functions.

Every pass starts from the cluster alone. A pass that finds the job at its end only says so in
the status; cleaning up is for the passes that see that status, so a job that is finished once
is finished for good, whatever is killed in between.
"""

from harmony_operator.actions import Actions
from harmony_operator.settings import OperatorSettings
from harmony_operator.view import JobView


def reconcile(view: JobView, settings: OperatorSettings) -> Actions:
    """Return all that this pass wants done."""
    raise NotImplementedError
