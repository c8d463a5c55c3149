"""API keys: our own are told apart from mistyped ones without a look-up, and only a hash is kept."""

from hypothesis import assume, given
from hypothesis import strategies as st

from tocsin.domain.keys import BOOTSTRAP_ID, PREFIX, hash_of, matches, new_key, take_apart

ids = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=20)


@given(ids)
def test_a_fresh_key_reads_back_to_its_id_and_matches_its_hash(key_id: str) -> None:
    chosen, text = new_key(key_id)
    presented = take_apart(text)
    assert presented is not None
    assert presented.id == chosen == key_id
    assert matches(presented.secret, hash_of(text))


def test_keys_differ_and_begin_with_the_prefix_that_scanners_look_for() -> None:
    texts = {new_key()[1] for _ in range(200)}
    assert len(texts) == 200
    assert all(text.startswith(f"{PREFIX}_") for text in texts)


@given(st.data())
def test_a_key_with_one_wrong_letter_is_told_from_a_wrong_key(data: st.DataObject) -> None:
    _, text = new_key("someid")
    place = data.draw(st.integers(len(PREFIX) + 1, len(text) - 1))
    assume(text[place] != "_")
    letter = data.draw(st.sampled_from("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"))
    assume(letter != text[place])
    assert take_apart(text[:place] + letter + text[place + 1 :]) is None


@given(st.text(min_size=1))
def test_any_other_text_is_the_operators_own_key(text: str) -> None:
    assume(not text.startswith(f"{PREFIX}_"))
    presented = take_apart(text)
    assert presented is not None
    assert (presented.id, presented.secret) == (BOOTSTRAP_ID, text)


@given(st.text(), st.text())
def test_only_the_same_text_matches(one: str, other: str) -> None:
    assert matches(one, hash_of(one))
    assert matches(one, hash_of(other)) == (one == other)
