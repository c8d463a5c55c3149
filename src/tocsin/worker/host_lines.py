"""The calls that wait until their host has a connection free.

A worker makes a limited number of calls to one host at once. Further calls stand in line here: each holds its
claim, and no place of the worker. A host's free connection goes to the tenants in turn, and within a tenant
to the most urgent that stands longest. So a tenant that floods a host delays its own calls.

A line is short: it has about as many as its tenant's share of the connections serves in `SERVED_WITHIN`, and
one at least. The rest goes back to the queue, where it can be cancelled, expire, or be taken by another
worker. `wait` estimates when its turn is near. Those waits follow one another at the pace at which the host
answers, so executions come back in their order.

Invariant: the calls counted against a host are those that `enter` or `next_call` admitted and for which
`leave` was not called yet. Callers pass the time in. This module makes no calls and knows nothing of places.
"""

import heapq
import random
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Final

from tocsin.domain.instant import MILLISECOND, SECOND, Instant, Span
from tocsin.queue.claims import Claim, ClaimIdentity
from tocsin.targets.caller import Host

SERVED_WITHIN: Final[Span] = 2 * SECOND
LONGEST_STAND: Final[Span] = 5 * SECOND
"""After this long in line an execution goes back all the same: the host answers more slowly than it did."""
LONGEST_WAIT: Final[Span] = 30 * SECOND
"""An execution comes back from the queue after this long at the latest, to see whether the host is quicker by
now."""
_SHORTEST_WAIT: Final[Span] = 200 * MILLISECOND
_CALL_TAKES_AT_FIRST: Final[Span] = 100 * MILLISECOND
"""What a call to a host is thought to take before the first one has ended."""
_SMOOTHED_OVER: Final = 16
"""How many calls the mean duration of a host's calls looks back."""
_EARLY: Final = 0.7
"""Share of the expected wait after which an execution comes back: too early costs two writes, too late an
idle connection."""

_GONE_AT_MOST: Final = 64
"""A line with more entries of executions that are gone, and more of them than stand in it, is cleared of
them."""


class _Standing:
    """One execution in line."""

    __slots__ = ("claim", "gone", "host", "since")

    def __init__(self, claim: Claim, host: Host, since: Instant) -> None:
        self.claim = claim
        self.host = host
        self.since = since
        self.gone = False
        """Whether the execution left the line before its turn. Its entry in the heap is dropped when it comes
        up."""


class _Line:
    """What one tenant has waiting for one host: a heap, the most urgent first, and of these the first that
    came."""

    __slots__ = ("come_back_at", "heap", "length")

    def __init__(self) -> None:
        self.heap: list[tuple[int, int, _Standing]] = []
        self.length = 0
        """How many stand here. The heap may also have entries of executions that are gone."""
        self.come_back_at: Instant = 0
        """When the last one comes back that was sent back to the queue."""

    def add(self, arrival: int, entry: _Standing) -> None:
        heapq.heappush(self.heap, (entry.claim.priority, arrival, entry))
        self.length += 1

    def next(self) -> _Standing:
        """Take out the one whose turn it is; there must be one."""
        self.length -= 1
        while (entry := heapq.heappop(self.heap)[2]).gone:
            pass
        return entry

    def drop(self, entry: _Standing) -> None:
        entry.gone = True
        self.length -= 1
        if len(self.heap) > _GONE_AT_MOST + 2 * self.length:
            self.heap = [other for other in self.heap if not other[2].gone]
            heapq.heapify(self.heap)

    def beyond(self, length: int) -> list[_Standing]:
        """Those for which a line of this length has no room: the last ones."""
        if self.length <= length:
            return []
        return [entry for *_, entry in sorted(self.heap) if not entry.gone][length:]


class _Host:
    __slots__ = ("call_takes", "calls", "lines", "room")

    def __init__(self, room: int) -> None:
        self.room = room
        """How many calls it gets at once."""
        self.calls = 0
        self.call_takes: Span | None = None
        self.lines: OrderedDict[int, _Line] = OrderedDict()
        """By tenant, in the order in which they get the next connections."""


class HostLines:
    """The lines of all hosts on one worker; at most `most_standing` executions stand in them."""

    def __init__(
        self, calls_per_host: int, most_standing: int, rooms: Mapping[Host, int] | None = None
    ) -> None:
        """`rooms` are of hosts that have another number of calls at once."""
        self.closed = False
        self._rooms = rooms or {}
        self._calls_per_host = calls_per_host
        self._most_standing = most_standing
        self._longest_line = max(1, most_standing // 4)
        self._hosts: dict[Host, _Host] = {}
        self._standing: dict[ClaimIdentity, _Standing] = {}
        # Hosts with a connection free and a call in line; there are some only while the worker is short of
        # places.
        self._ready: OrderedDict[Host, None] = OrderedDict()
        self._arrivals = count()

    def __len__(self) -> int:
        return len(self._standing)

    def __iter__(self) -> Iterator[Claim]:
        return (standing.claim for standing in self._standing.values())

    def enter(self, host: Host) -> bool:
        """Count a call to a host, if it has a connection free and no line. Must `leave` afterwards."""
        known = self._hosts.get(host)
        if known is None:
            known = self._hosts[host] = _Host(self._rooms.get(host, self._calls_per_host))
        elif known.lines or known.calls >= known.room:
            return False
        known.calls += 1
        return True

    def leave(self, host: Host, took: Span | None = None) -> None:
        """A call is over. `took` is how long it was under way, if that tells how quickly the host answers."""
        known = self._hosts[host]
        known.calls -= 1
        if took is not None:
            mean = took if known.call_takes is None else known.call_takes
            known.call_takes = mean + (took - mean) // _SMOOTHED_OVER
        self._note_ready(host, known)

    def stand(self, host: Host, claim: Claim, now: Instant) -> bool:
        """Stand in line. False if the line is full: the execution has to wait in the queue."""
        known = self._hosts[host]
        line = known.lines.get(claim.tenant_id)
        standing = 0 if line is None else line.length
        if self.closed or len(self._standing) >= self._most_standing or standing >= self._length(known):
            return False
        if line is None:
            line = known.lines[claim.tenant_id] = _Line()
        entry = self._standing[claim.identity] = _Standing(claim, host, now)
        line.add(next(self._arrivals), entry)
        self._note_ready(host, known)
        return True

    def next_call(self) -> tuple[Host, Claim] | None:
        """Take the next one out of line whose host has a connection free, and count its call. Must `leave`
        afterwards."""
        if not self._ready:
            return None
        host, _ = self._ready.popitem(last=False)
        known = self._hosts[host]
        tenant_id, line = known.lines.popitem(last=False)
        entry = line.next()
        if line.length:
            known.lines[tenant_id] = line  # behind the other tenants
        del self._standing[entry.claim.identity]
        known.calls += 1
        self._note_ready(host, known)
        return host, entry.claim

    def drop(self, claim: Claim) -> bool:
        """Take an execution out of line that must not call any more. Whether it stood there."""
        entry = self._standing.pop(claim.identity, None)
        if entry is None:
            return False
        known = self._hosts[entry.host]
        line = known.lines[entry.claim.tenant_id]
        line.drop(entry)
        if not line.length:
            del known.lines[entry.claim.tenant_id]
        self._note_ready(entry.host, known)
        return True

    def overstayed(self, now: Instant) -> list[tuple[Host, Claim]]:
        """Take out executions that go back to the queue: past their latest start, in line for
        `LONGEST_STAND`, or beyond the length that the host's pace allows."""
        leaving = [entry for entry in self._standing.values() if _overstayed(entry, now)]
        for known in self._hosts.values():
            length = self._length(known)
            for line in known.lines.values():
                leaving += line.beyond(length)
        return [(entry.host, entry.claim) for entry in leaving if self.drop(entry.claim)]

    def wait(self, host: Host, tenant_id: int, now: Instant) -> Span:
        """How long an execution should wait in the queue until its turn is near."""
        known = self._hosts.get(host)
        line = None if known is None else known.lines.get(tenant_id)
        if known is None or line is None:
            return _SHORTEST_WAIT + round(SECOND * random.random())
        pace = round(self._pace(known) * _EARLY)
        before = min(line.length, self._length(known))  # what is beyond that leaves the line
        come_back_at = max(line.come_back_at, now + before * pace) + pace
        if come_back_at - now > LONGEST_WAIT:
            return round(LONGEST_WAIT * (1 + random.random()) / 2)
        line.come_back_at = come_back_at
        return max(come_back_at - now, _SHORTEST_WAIT)

    def rooms(self) -> dict[int, int]:
        """Tenants with a line as long as lines get, so in front of a quick host, and how many of theirs
        should come.

        None until half of the line is gone: what comes before that would be sent back, only to come again at
        once.
        """
        rooms: dict[int, int] = {}
        for known in self._hosts.values() if self._standing else ():
            if known.lines and self._length(known) == self._longest_line:
                for tenant_id, line in known.lines.items():
                    room = self._longest_line - line.length
                    room = room if room * 2 >= self._longest_line else 0
                    rooms[tenant_id] = min(room, rooms.get(tenant_id, room))
        return rooms

    def close(self) -> list[Claim]:
        """End all lines. Returns the claims that stood in them."""
        self.closed = True
        return [claim for claim in list(self) if self.drop(claim)]

    def _pace(self, known: _Host) -> Span:
        """How long it takes between two turns of one tenant."""
        takes = _CALL_TAKES_AT_FIRST if known.call_takes is None else known.call_takes
        return takes * max(1, len(known.lines)) // known.room

    def _length(self, known: _Host) -> int:
        """How many of one tenant may stand in line."""
        return min(max(1, SERVED_WITHIN // max(1, self._pace(known))), self._longest_line)

    def _note_ready(self, host: Host, known: _Host) -> None:
        if known.lines and known.calls < known.room:
            self._ready.setdefault(host)
            return
        if self._ready:
            self._ready.pop(host, None)
        if not known.lines and not known.calls:
            del self._hosts[host]


def _overstayed(entry: _Standing, now: Instant) -> bool:
    too_late = entry.claim.start_by is not None and entry.claim.start_by <= now
    return too_late or now - entry.since >= LONGEST_STAND
