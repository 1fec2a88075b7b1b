"""`python -m harmony_crds` writes the generated files; with `--check` it only compares them."""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

import yaml

from harmony_crds.definitions import Definition, harmony_groups, harmony_jobs
from harmony_crds.reference import reference

ROOT = Path(__file__).resolve().parents[2]
_NOTE = "# Written by `make crds` from the models in crds/harmony_api; never edited.\n"


def generated_files() -> Mapping[Path, str]:
    """Return the text of every generated file, by its path."""
    jobs, groups = harmony_jobs(), harmony_groups()
    files = {ROOT / "docs/reference.md": reference([jobs, groups])}
    # Helm reads no file outside a chart, so the chart has its own.
    for folder in (ROOT / "crds", ROOT / "charts/harmony/crd-files"):
        files[folder / "harmonyjobs.yaml"] = _yaml(jobs)
        files[folder / "harmonygroups.yaml"] = _yaml(groups)
    return files


def _yaml(definition: Definition) -> str:
    return _NOTE + yaml.dump(definition, Dumper=_PlainDumper, sort_keys=False, width=100)


class _PlainDumper(yaml.SafeDumper):
    """Writes equal lists twice rather than referring from one to the other."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        return True


def main() -> int:
    """Write or check the files; the exit status is 1 when the check finds a difference."""
    parser = argparse.ArgumentParser(prog="python -m harmony_crds", description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail when a file is out of date")
    check = parser.parse_args().check
    outdated = {
        path: text
        for path, text in generated_files().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    }
    for path, text in outdated.items():
        if check:
            print(f"{path.relative_to(ROOT)} is out of date: run 'make crds'", file=sys.stderr)
        else:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
    return 1 if check and outdated else 0


if __name__ == "__main__":
    sys.exit(main())
