"""Notices of the next version: words that this one does not know wake nobody, and spoil none of those beside
them."""

from tests.skew.tomorrow import NOTICES
from tocsin.db.notices import Notices


def test_unknown_words_wake_nobody_and_known_ones_beside_them_are_heard() -> None:
    notices, woken = Notices("postgresql://", "test"), []
    for word in ("ready", "stop", "plan"):
        notices.on(word, lambda word=word: woken.append(word))
    for payload in NOTICES:
        notices._heard(None, 0, "tocsin", payload)
    assert woken == ["ready", "stop"]
