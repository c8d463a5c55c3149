"""What a server without standbys says about itself."""

from tests.support.api import with_database
from tocsin.store.standing import database_standing


def test_a_server_without_standbys_is_alone_and_says_what_that_means(url: str) -> None:
    standing = with_database(url, database_standing)
    assert (standing.kind, standing.standbys, standing.safe) == ("alone", 0, False)
    assert "no standby" in standing.words
