"""Replacing the master key: everything is sealed anew while the fleet works, and then the old key is not
missed."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.acceptance.receiver import running
from tests.support.api import ADMIN_KEY, RealApi, in_process_api, with_database
from tocsin.cli.main import cli
from tocsin.db.pool import Database
from tocsin.domain.errors import Conflict
from tocsin.domain.instant import DAY
from tocsin.domain.sealing import SecretBox, new_master_key, read_master_keys
from tocsin.store.resealing import Place, Resealed, Resealing
from tocsin.store.secrets import SecretStore
from tocsin.store.webhook_secrets import WebhookSecretStore

OLD, NEW, OTHER = new_master_key(), new_master_key(), new_master_key()
TENANTS = ("anna", "bert", "carl")


def box_of(*keys: str) -> SecretBox:
    return SecretBox(read_master_keys(",".join(keys), "key"))


async def _fill(database: Database, box: SecretBox, names: int = 5) -> dict[tuple[int, str], str]:
    """Secrets and a webhook secret for some tenants. Returns the values of the former."""
    values = {}
    for tenant in TENANTS:
        row = await database.one("INSERT INTO tenants (name) VALUES ($1) RETURNING id", tenant)
        await WebhookSecretStore(database, box).live(row["id"])
        for number in range(names):
            values[row["id"], f"name-{number}"] = f"value of {tenant} {number}"
    for (tenant_id, name), value in values.items():
        await SecretStore(database, box).put(tenant_id, name, value)
    return values


async def _signing(database: Database, box: SecretBox) -> dict[int, bytes]:
    rows = await database.fetch("SELECT DISTINCT tenant_id FROM webhook_secrets")
    store = WebhookSecretStore(database, box)
    return {row["tenant_id"]: (await store.live(row["tenant_id"]))[0].secret for row in rows}


async def _values(database: Database, box: SecretBox) -> dict[tuple[int, str], Any]:
    rows = await database.fetch("SELECT tenant_id, name FROM secrets")
    store = SecretStore(database, box)
    found = {}
    for row in rows:
        values = await store.values(row["tenant_id"], [row["name"]])
        found[row["tenant_id"], row["name"]] = values[row["name"]]
    return found


async def _reseal(resealing: Resealing) -> list[Resealed]:
    """Every batch until the last."""
    done: list[Resealed] = []
    place: Place | None = None
    while not done or place is not None:
        done.append(await resealing.batch(place))
        place = done[-1].end
    return done


def test_everything_is_sealed_anew_in_batches_and_opens_without_the_old_key(url: str) -> None:
    """Values, signing secrets and times of change stay; a second run finds nothing to do."""

    async def work(database: Database) -> None:
        values = await _fill(database, box_of(OLD))
        signing = await _signing(database, box_of(OLD))
        changed = await database.fetch("SELECT tenant_id, name, updated_at FROM secrets ORDER BY 1, 2")
        done = await _reseal(Resealing(database, box_of(NEW, OLD), batch=4))
        assert [(one.secrets + one.webhook_secrets, one.left) for one in done] == [
            (4, 14), (4, 10), (4, 6), (4, 2), (2, 0),
        ]  # fmt: skip
        assert sum(one.secrets for one in done) == 15
        assert sum(one.webhook_secrets for one in done) == 3
        assert await _values(database, box_of(NEW)) == values
        assert await _signing(database, box_of(NEW)) == signing
        assert changed == await database.fetch(
            "SELECT tenant_id, name, updated_at FROM secrets ORDER BY 1, 2"
        )
        sealed = await database.fetch("SELECT sealed FROM secrets ORDER BY 1")
        (again,) = await _reseal(Resealing(database, box_of(NEW, OLD), batch=100))
        assert (again.secrets, again.webhook_secrets, again.left) == (0, 0, 0)
        assert sealed == await database.fetch("SELECT sealed FROM secrets ORDER BY 1")

    with_database(url, work)


def test_of_one_tenant_only_that_tenants_are_sealed_anew(url: str) -> None:
    async def work(database: Database) -> None:
        await _fill(database, box_of(OLD))
        (row,) = await database.fetch("SELECT id FROM tenants WHERE name = 'bert'")
        done = await Resealing(database, box_of(NEW, OLD)).batch(None, row["id"])
        assert (done.secrets, done.webhook_secrets, done.left) == (5, 1, 0)
        whole = await Resealing(database, box_of(NEW, OLD)).batch(None)
        assert (whole.secrets, whole.webhook_secrets) == (10, 2)

    with_database(url, work)


def test_what_does_not_open_stays_as_it_is_and_is_named(url: str) -> None:
    """Also when more of them than fit a batch stand in the way of the others."""

    async def work(database: Database) -> None:
        lost = await _fill(database, box_of(OTHER))
        await SecretStore(database, box_of(OLD)).put(1, "last", "fine")
        await SecretStore(database, box_of(OLD)).put(max(lost)[0], "zlast", "fine")
        sealed = await database.fetch("SELECT sealed FROM secrets WHERE name LIKE 'name-%' ORDER BY 1")
        done = await _reseal(Resealing(database, box_of(NEW, OLD), batch=4))
        assert sum(one.secrets for one in done) == 2
        assert done[-1].left == 18
        named = [one for batch in done for one in batch.unopened]
        assert len(named) == 18
        assert {one.tenant for one in named} == set(TENANTS)
        assert {one.key_id for one in named} == {box_of(OTHER).key_id}
        assert "which this process does not have" in named[0].reason
        assert sealed == await database.fetch(
            "SELECT sealed FROM secrets WHERE name LIKE 'name-%' ORDER BY 1"
        )

    with_database(url, work)


def test_a_webhook_secret_whose_key_is_lost_can_be_replaced_and_no_longer_counts(url: str) -> None:
    async def work(database: Database) -> None:
        await WebhookSecretStore(database, box_of(OTHER)).live(1)
        here = box_of(NEW, OLD)
        store = WebhookSecretStore(database, here)
        with pytest.raises(Conflict, match="does not open"):
            await store.live(1)
        (only,) = await store.rotate(1, DAY)
        assert only.expires_at is None
        assert await store.live(1) == [only]
        done = await Resealing(database, here).batch(None)
        assert (done.unopened, done.left) == ([], 0)

    with_database(url, work)


class Meddling:
    """A database at which somebody does something between the reading and the writing of a batch."""

    def __init__(self, database: Database, meddle: Callable[[], Coroutine[Any, Any, object]]) -> None:
        self._database = database
        self._meddle = meddle
        self.fetch = database.fetch

    async def one(self, query: str, *args: Any) -> Any:
        if "UPDATE" in query:
            await self._meddle()
        return await self._database.one(query, *args)


def test_a_value_that_is_replaced_at_the_same_moment_stays_as_its_owner_wrote_it(url: str) -> None:
    """And if it was written by a process that still seals with the old key, the count says that one is
    left."""

    async def work(database: Database) -> None:
        values = await _fill(database, box_of(OLD))
        first = min(values)
        owner = SecretStore(database, box_of(OLD, NEW))
        meddling: Any = Meddling(database, lambda: owner.put(*first, "replaced"))
        done = await Resealing(meddling, box_of(NEW, OLD)).batch(None)
        assert (done.secrets, done.webhook_secrets, done.left) == (14, 3, 1)
        assert await _values(database, box_of(OLD, NEW)) == values | {first: "replaced"}
        again = await Resealing(database, box_of(NEW, OLD)).batch(None)
        assert (again.secrets, again.left) == (1, 0)
        assert await _values(database, box_of(NEW)) == values | {first: "replaced"}

    with_database(url, work)


def test_what_somebody_is_writing_is_not_waited_for(url: str) -> None:
    """So a batch cannot hold up, nor be deadlocked with, whoever replaces secrets; the next one finds what is
    left."""

    async def work(database: Database) -> None:
        values = await _fill(database, box_of(OLD))
        resealing = Resealing(database, box_of(NEW, OLD))
        async with database.transaction() as session:
            await session.execute("SELECT 1 FROM secrets WHERE name = 'name-0' FOR UPDATE")
            done = await resealing.batch(None)
            assert (done.secrets, done.webhook_secrets, done.left) == (12, 3, 3)
        done = await resealing.batch(None)
        assert (done.secrets, done.left) == (3, 0)
        assert await _values(database, box_of(NEW)) == values

    with_database(url, work)


def test_several_at_once_do_no_harm(url: str) -> None:
    """Each secret is sealed anew by one of them, whoever comes first; readers with both keys never miss
    one."""

    async def work(database: Database) -> None:
        values = await _fill(database, box_of(OLD), names=40)
        both = Resealing(database, box_of(NEW, OLD), batch=7)
        *runs, seen = await asyncio.gather(_reseal(both), _reseal(both), _values(database, box_of(OLD, NEW)))
        assert seen == values
        assert sum(one.secrets for run in runs for one in run) == len(values)
        assert await _values(database, box_of(NEW)) == values

    with_database(url, work)


def test_only_operators_reseal_and_it_is_on_record(url: str) -> None:
    with in_process_api(url) as api:
        for scopes in (("read", "write"), ("worker",)):
            assert api.call("POST", "/v1/secrets:reseal", key=api.new_key(*scopes)).status == 403
        api.run(SecretStore(api.database, box_of(OTHER)).put(1, "lost", "value"))
        answer = api.post("/v1/secrets:reseal")
        assert answer.status == 200
        assert answer.json()["remaining"] == 1
        assert answer.json()["unopened"][0]["name"] == "lost"
        assert b"secret.reseal" not in api.get("/v1/audit").body
        for cursor in ("x", "W10", "eyJhIjoxfQ", "WzEsIlx1MDAwMCJd", "Wzk5OTk5OTk5OTk5LCIiXQ"):
            assert api.post("/v1/secrets:reseal", {"cursor": cursor}).status == 422, cursor


def _tocsin(api: RealApi, *arguments: str) -> Result:
    environment = {"TOCSIN_URL": api.url, "TOCSIN_API_KEY": ADMIN_KEY}
    return CliRunner().invoke(cli, arguments, env=environment)


@pytest.mark.timeout(120)
def test_the_key_of_a_running_installation_is_replaced_without_losing_a_secret(
    url: str, tmp_path: Path
) -> None:
    """Old key, then both, then `tocsin secrets reseal`, then the new one alone: the target gets the secret
    all along."""

    def fires(place: Any, path: str) -> None:
        place.fire(path, headers={"X-Key": {"secret": "billing"}})
        (request,) = place.receiver.of(path)
        assert request.headers["x-key"] == "value"
        assert "webhook-signature" in request.headers

    with running(url, tmp_path, secret_key=OLD) as place:
        place.put_secret("billing", "value")
        signing = place.api.get("/v1/webhook-secret").json()
        fires(place, "/before")
    with running(url, tmp_path, secret_key=f"{NEW},{OLD}") as place:
        fires(place, "/with-both")
        done = _tocsin(place.api, "secrets", "reseal")
        assert done.exit_code == 0, done.output
        assert f"resealed 1 secrets and 1 webhook secrets under key {box_of(NEW).key_id}" in done.output
        assert "old keys can be removed" in done.output
        again = json.loads(_tocsin(place.api, "secrets", "reseal", "--json").stdout)
        assert again == {
            "secrets": 0, "webhook_secrets": 0, "unopened": [], "key_id": box_of(NEW).key_id, "remaining": 0,
        }  # fmt: skip
        (entry,) = [
            one for one in place.api.get("/v1/audit").json()["items"] if one["action"] == "secret.reseal"
        ]
        assert entry["after"] == {"key_id": box_of(NEW).key_id, "secrets": 1, "webhook_secrets": 1}
        fires(place, "/resealed")
    with running(url, tmp_path, secret_key=NEW) as place:
        fires(place, "/after")
        assert place.api.get("/v1/webhook-secret").json() == signing
    with running(url, tmp_path, secret_key=OTHER) as place:
        done = _tocsin(place.api, "secrets", "reseal")
        assert done.exit_code == 1
        assert "2 remain under another key: keep it" in done.output
        assert "billing" in done.output
