"""The control groups of a node's pods, in the one tree of version 2 or in the several of 1.

Both the janitor and a node whose power goes off remove them.
"""

from pathlib import Path

from cluster.janitor import CGROUPS


def paths(name: str) -> list[Path]:
    """Return where the control group `name` lies, in every tree."""
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS / name]
    trees = (path for path in CGROUPS.iterdir() if path.is_dir() and not path.is_symlink())
    return [tree / name for tree in trees]


def make(name: str) -> None:
    """Make it everywhere; in version 1, it uses no processor before it is given some."""
    for group in paths(name):
        group.mkdir()
        for given in ("cpuset.cpus", "cpuset.mems"):
            if group.parent != CGROUPS and (group / given).exists():
                (group / given).write_text((group.parent / given).read_text())
