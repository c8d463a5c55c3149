"""Identifiers: there and back, in order, and nothing else is one."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.cells import PARTITIONS, partition_for
from tocsin.domain.errors import NotFound
from tocsin.domain.ids import (
    EARLIEST,
    LATEST,
    ExecutionKey,
    execution_text,
    job_text,
    new_job_id,
    parse_execution_text,
    parse_job_text,
    partition_of,
    shard_of,
)
from tocsin.domain.instant import MILLISECOND

uuids = st.uuids()
instants = st.integers(EARLIEST, LATEST)
keys = st.builds(ExecutionKey, uuids, instants)


@given(uuids)
def test_a_job_text_reads_back_in_either_case(job_id: UUID) -> None:
    text = job_text(job_id)
    assert parse_job_text(text) == job_id
    assert parse_job_text("job_" + text[4:].upper()) == job_id


@given(keys)
def test_an_execution_text_reads_back(key: ExecutionKey) -> None:
    assert parse_execution_text(execution_text(key)) == key


@given(keys, keys)
def test_texts_sort_as_what_they_name(one: ExecutionKey, other: ExecutionKey) -> None:
    assert (execution_text(one) < execution_text(other)) == (
        (one.job_id.int, one.fire_at) < (other.job_id.int, other.fire_at)
    )
    assert (job_text(one.job_id) < job_text(other.job_id)) == (one.job_id.int < other.job_id.int)


@given(uuids)
def test_letters_that_people_mistake_are_read_as_meant(job_id: UUID) -> None:
    text = job_text(job_id)
    mistaken = text[:4] + text[4:].replace("1", "l").replace("0", "o")
    assert parse_job_text(mistaken) == job_id


@given(st.integers(0, (1 << 48) - 1), st.integers(0, (1 << 48) - 1))
def test_new_jobs_sort_by_age_and_are_uuids_of_version_seven(one: int, other: int) -> None:
    first, second = new_job_id(one * MILLISECOND), new_job_id(other * MILLISECOND)
    assert (first.version, first.variant) == (7, "specified in RFC 4122")
    if one != other:
        assert (first.int < second.int) == (one < other)
    assert first.int >> 80 == one


def test_new_jobs_of_one_instant_differ_and_spread_over_the_shards() -> None:
    ids = {new_job_id(0) for _ in range(2000)}
    assert len(ids) == 2000
    assert {shard_of(job_id, 64) for job_id in ids} == set(range(64))


@given(uuids, st.integers(1, 4096))
def test_a_job_always_has_the_same_shard_within_range(job_id: UUID, count: int) -> None:
    assert shard_of(job_id, count) == shard_of(UUID(str(job_id)), count) < count


@given(st.text())
def test_any_other_text_names_nothing(text: str) -> None:
    for parse in (parse_job_text, parse_execution_text):
        with pytest.raises(NotFound):
            parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "job_",
        "job_" + "0" * 25,
        "job_" + "0" * 27,
        "job_" + "z" * 26,  # more than 128 bits
        "job_" + "u" * 26,  # no such letter
        "exec_" + "0" * 26,
        "JOB_" + "0" * 26,
        "job_" + "0" * 25 + "İ",
    ],
)
def test_a_job_text_of_another_shape_is_refused(text: str) -> None:
    with pytest.raises(NotFound):
        parse_job_text(text)


@given(st.integers(0, (1 << 48) - 1), st.integers(0, PARTITIONS - 1))
def test_an_id_is_in_the_partition_that_was_chosen_and_is_an_id_like_all_others(
    ms: int, partition: int
) -> None:
    job_id = new_job_id(ms * MILLISECOND, partition)
    assert partition_of(job_id) == partition
    assert (job_id.int >> 80, job_id.version, job_id.variant) == (ms, 7, "specified in RFC 4122")


@given(uuids)
def test_the_twelfth_and_thirteenth_letter_of_a_job_are_its_partition(job_id: UUID) -> None:
    letters = job_text(job_id).removeprefix("job_")[11:13]
    alphabet = "0123456789abcdefghjkmnpqrstvwxyz"
    assert alphabet.index(letters[0]) * 32 + alphabet.index(letters[1]) == partition_of(job_id)


def test_ids_without_a_chosen_partition_are_spread_over_all_and_so_are_those_made_before() -> None:
    made_before = UUID("018f3e5c-9b2a-7c31-a5d4-1f0e9b8c7d6a")
    assert partition_of(made_before) == 0xC31 >> 1 & 1023
    assert len({partition_of(new_job_id(0)) for _ in range(20_000)}) == PARTITIONS


def test_jobs_of_one_partition_are_spread_over_all_shards() -> None:
    assert {shard_of(new_job_id(0, 7), 64) for _ in range(2000)} == set(range(64))


def test_a_word_chooses_the_same_partition_in_every_version() -> None:
    """Two releases side by side must not send one name to two cells."""
    assert [partition_for(word) for word in ("nightly-report", "Zürich", "")] == [637, 264, 692]
    assert len({partition_for(f"job-{n}") for n in range(20_000)}) == PARTITIONS
