"""`python -m harmony_operator`: what the operator's container runs."""

import asyncio
import logging
import os
import sys

from harmony_operator.main import run
from harmony_operator.settings import SettingsError, from_environment


def main() -> int:
    """Run the operator; return the exit status."""
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    for chatty in ("kopf", "aiohttp.access"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    sys.setswitchinterval(0.001)  # the planner's thread shall not hold up requests
    try:
        settings = from_environment(os.environ)
    except SettingsError as error:
        print(f"harmony_operator: {error}", file=sys.stderr)
        return 2
    asyncio.run(run(settings, os.environ))
    return 0


sys.exit(main())
