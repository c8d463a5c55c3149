"""Fair shares: every shard finds an owner, nobody takes more than the ceiling, and an even fleet keeps
still."""

from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.shard import share

shards = st.integers(1, 4096)


@given(st.integers(0, 4096), shards, st.integers(0, 200))
def test_a_node_takes_or_gives_but_never_both_and_lands_on_the_ceiling(
    held: int, count: int, nodes: int
) -> None:
    change = share(held=held, shards=count, nodes=nodes)
    ceiling = -(-count // max(nodes, 1))
    assert min(change.take, change.give) == 0
    assert held + change.take - change.give == ceiling


@given(st.integers(1, 512), st.lists(st.integers(0, 512), min_size=1, max_size=20), st.randoms())
def test_any_fleet_settles_in_two_rounds_with_every_shard_owned(count: int, wanted: list[int], rng) -> None:
    held, free = [], count
    for number in wanted:
        held.append(min(number, free))
        free -= held[-1]
    for _ in range(2):
        order = list(range(len(held)))
        rng.shuffle(order)
        for node in order:
            change = share(held=held[node], shards=count, nodes=len(held))
            taken = min(change.take, free)
            held[node] += taken - change.give
            free += change.give - taken
    assert (sum(held), free) == (count, 0)
    assert max(held) <= -(-count // len(held))
    settled = [share(held=number, shards=count, nodes=len(held)) for number in held]
    assert all(change.give == 0 for change in settled)


@given(shards)
def test_a_lone_node_takes_everything(count: int) -> None:
    assert share(held=0, shards=count, nodes=1).take == count
