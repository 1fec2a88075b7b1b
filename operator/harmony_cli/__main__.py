"""`python -m harmony_cli`: the `harmony` program without its entry point."""

from harmony_cli.main import main

main()
