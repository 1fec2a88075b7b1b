"""Which jobs run, and in which groups, so that progress is worth the most.

Each job says what a second of its progress is worth (progress_values.py); a group makes its
members progress at the pace of its cycle, on GPUs that it takes once. Groups of jobs of one
width are chosen so that the sum of worth per second is large on the GPUs that are free: densest
groups first, and then exchanges of members between groups and with the waiting jobs, mergers
that make room for another group, and splits, for as long as one of them gains. That sum knows when
sharing pays: a job that is worth much runs alone, and a full queue is served by groups.

Deterministic: ties fall by the order of the candidates.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import Final

from harmony_planner.densest_groups import (
    LARGEST_GROUP,
    Candidate,
    CycleSeconds,
    Group,
    Waiting,
    densest_groups,
)

_LEAST_GAIN: Final = 1e-9
_MOST_PASSES: Final = 200


def choose_groups(
    candidates: Sequence[Candidate], free_gpus: int, cycle_seconds: CycleSeconds
) -> list[Group]:
    """Return groups that fit on `free_gpus`; candidates in none of them wait."""
    if sum(candidate.gpus for candidate in candidates) <= free_gpus:
        return [(candidate,) for candidate in candidates]
    search = _Search(candidates, free_gpus, cycle_seconds)
    search.fill()
    search.improve()
    return search.groups


def first_that_fit(candidates: Sequence[Candidate], free_gpus: int) -> list[Group]:
    """Return the candidates, each alone, that fit beside those before them."""
    chosen: list[Group] = []
    for candidate in candidates:
        if candidate.gpus <= free_gpus:
            free_gpus -= candidate.gpus
            chosen.append((candidate,))
    return chosen


class _Search:
    """Groups in the making."""

    def __init__(
        self, candidates: Sequence[Candidate], free_gpus: int, cycle_seconds: CycleSeconds
    ) -> None:
        self.groups: list[Group] = []
        self._free_gpus = free_gpus
        self._cycle_seconds = cycle_seconds
        self._values: dict[Group, float] = {}
        self._waiting: dict[int, Waiting] = {}
        for candidate in sorted(candidates, key=lambda c: -c.value / c.gpus):
            self._waiting.setdefault(candidate.gpus, Waiting()).add(candidate)

    def fill(self) -> None:
        """Add the densest groups of waiting jobs that fit."""
        for group in self._filling(self._free_gpus):
            self._open(group)

    def improve(self) -> None:
        """Change groups as long as that gains."""
        for _ in range(_MOST_PASSES):
            changed = self._exchange()
            changed |= self._join()
            changed |= self._leave()
            if not (self._merge() or self._make_way() or self._split_into_free() or changed):
                return

    def value(self, group: Group) -> float:
        """Return the worth of a second of a group."""
        known = self._values.get(group)
        if known is None:
            worth = sum(member.value * member.alone_seconds for member in group)
            known = self._values[group] = worth / self._cycle_seconds(group) if group else 0.0
        return known

    def _filling(self, free_gpus: int) -> list[Group]:
        return densest_groups(self._waiting, free_gpus, self.value)

    def _open(self, group: Group) -> None:
        self.groups.append(group)
        self._free_gpus -= group[0].gpus
        for member in group:
            self._waiting[member.gpus].remove(member)

    # ---- changes that keep the number of groups

    def _exchange(self) -> bool:
        """Swap members with waiting jobs and between groups, and move them over."""
        changed = False
        for at in range(len(self.groups)):
            place = 0
            while place < len(self.groups[at]):
                changed |= self._exchange_with_waiting(at, place)
                changed |= self._exchange_with_groups(at, place)
                place += 1
        return changed

    def _exchange_with_waiting(self, at: int, place: int) -> bool:
        changed = False
        waiting = self._waiting[self.groups[at][place].gpus]
        for candidate in waiting.best():
            group = self.groups[at]
            member = group[place]
            if candidate.profile == member.profile and candidate.value <= member.value:
                continue
            swapped = (*group[:place], candidate, *group[place + 1 :])
            if self.value(swapped) > self.value(group) + _LEAST_GAIN:
                self.groups[at] = swapped
                waiting.remove(candidate)
                waiting.add(member)
                changed = True
        return changed

    def _exchange_with_groups(self, at: int, place: int) -> bool:
        changed = False
        for other in range(len(self.groups)):
            if other == at or self.groups[other][0].gpus != self.groups[at][0].gpus:
                continue
            for other_place in range(len(self.groups[other])):
                mine, theirs = self.groups[at], self.groups[other]
                member, partner = mine[place], theirs[other_place]
                if member.profile == partner.profile and member.value == partner.value:
                    continue
                changed |= self._replace(
                    at,
                    (*mine[:place], partner, *mine[place + 1 :]),
                    other,
                    (*theirs[:other_place], member, *theirs[other_place + 1 :]),
                )
            mine, theirs = self.groups[at], self.groups[other]
            if len(mine) > 1 and len(theirs) < LARGEST_GROUP:
                rest = mine[:place] + mine[place + 1 :]
                if self._replace(at, rest, other, (*theirs, mine[place])):
                    return True
        return changed

    def _replace(self, at: int, group: Group, other: int, other_group: Group) -> bool:
        before = self.value(self.groups[at]) + self.value(self.groups[other])
        if self.value(group) + self.value(other_group) <= before + _LEAST_GAIN:
            return False
        self.groups[at], self.groups[other] = group, other_group
        return True

    def _join(self) -> bool:
        """Let waiting jobs join groups."""
        changed = False
        for at, group in enumerate(self.groups):
            waiting = self._waiting[group[0].gpus]
            while len(self.groups[at]) < LARGEST_GROUP:
                longer = [(*self.groups[at], candidate) for candidate in waiting.best()]
                best = max(longer, key=self.value, default=())
                if self.value(best) <= self.value(self.groups[at]) + _LEAST_GAIN:
                    break
                self.groups[at] = best
                waiting.remove(best[-1])
                changed = True
        return changed

    def _leave(self) -> bool:
        """Let members wait whose group is worth more without them."""
        changed = False
        for at, group in enumerate(self.groups):
            for rest, member in _without_one(group):
                if self.value(rest) > self.value(group) + _LEAST_GAIN:
                    self.groups[at] = rest
                    self._waiting[member.gpus].add(member)
                    changed = True
                    break
        return changed

    # ---- changes of the number of groups

    def _merge(self) -> bool:
        """Merge two groups, where what runs on the GPUs that they free is worth more."""
        splits = [self._best_split(at) for at in range(len(self.groups))]
        fillings: dict[int, list[Group]] = {}
        for at, other in combinations(range(len(self.groups)), 2):
            one, two = self.groups[at], self.groups[other]
            gpus = one[0].gpus
            if gpus != two[0].gpus or len(one) + len(two) > LARGEST_GROUP:
                continue
            if gpus not in fillings:
                fillings[gpus] = self._filling(self._free_gpus + gpus)
            filling_gain = sum(map(self.value, fillings[gpus]))
            split = max(
                (
                    (gain, third)
                    for third, (gain, _, _) in enumerate(splits)
                    if third not in (at, other) and self.groups[third][0].gpus <= gpus
                ),
                default=(0.0, -1),
            )
            lost = self.value(one) + self.value(two) - self.value(one + two)
            if max(filling_gain, split[0]) <= lost + _LEAST_GAIN:
                continue
            self.groups[at] = one + two
            if filling_gain >= split[0]:
                del self.groups[other]
                self._free_gpus += gpus
                for group in fillings[gpus]:
                    self._open(group)
            else:
                _, self.groups[split[1]], member = splits[split[1]]
                self.groups[other] = (member,)
                self._free_gpus += gpus - member.gpus
            return True
        return False

    def _make_way(self) -> bool:
        """Let a group wait for a member of another that is worth more on those GPUs."""
        splits = [self._best_split(at) for at in range(len(self.groups))]
        for at, group in enumerate(self.groups):
            for other, (gain, rest, member) in enumerate(splits):
                if other == at or member.gpus > group[0].gpus:
                    continue
                if gain > self.value(group) + _LEAST_GAIN:
                    for left in group:
                        self._waiting[left.gpus].add(left)
                    self.groups[other], self.groups[at] = rest, (member,)
                    self._free_gpus += group[0].gpus - member.gpus
                    return True
        return False

    def _best_split(self, at: int) -> tuple[float, Group, Candidate]:
        """Return gain, rest and member of the best way to give a member GPUs of its own."""
        group = self.groups[at]
        if len(group) == 1:
            return 0.0, group, group[0]
        return max(
            (
                (self.value(rest) + self.value((member,)) - self.value(group), rest, member)
                for rest, member in _without_one(group)
            ),
            key=lambda split: split[0],
        )

    def _split_into_free(self) -> bool:
        """Give a member of a group free GPUs of its own."""
        for at, group in enumerate(self.groups):
            if group[0].gpus > self._free_gpus:
                continue
            gain, rest, member = self._best_split(at)
            if gain > _LEAST_GAIN:
                self.groups[at] = rest
                self.groups.append((member,))
                self._free_gpus -= member.gpus
                return True
        return False


def _without_one(group: Group) -> list[tuple[Group, Candidate]]:
    """Return each member with the others; nothing where it is alone."""
    if len(group) == 1:
        return []
    return [(group[:place] + group[place + 1 :], group[place]) for place in range(len(group))]
