"""Calls unary gRPC methods: opens the secrets, fills the message in, calls, hands back an outcome."""

import asyncio
import random
from collections.abc import Mapping
from typing import Any, Final

import grpc
import grpc.aio

from tocsin.clock import Clock
from tocsin.domain.addresses import TargetUrl
from tocsin.domain.errors import Refused, Unavailable
from tocsin.domain.grpc_target import GrpcTarget, descriptors_of, grpc_place, secrets_of_grpc
from tocsin.domain.instant import SECOND
from tocsin.domain.outcome import Outcome, Postponed, Verdict, pause_for_newer
from tocsin.domain.policy import NETWORK
from tocsin.domain.secrets import Redactor, SecretRef
from tocsin.domain.template import fill_value
from tocsin.domain.waits import Reason
from tocsin.targets.assignment import Assignment
from tocsin.targets.caller import Host
from tocsin.targets.filling import Names, NoNames, values_for
from tocsin.targets.grpc.channels import Channels, Credentials
from tocsin.targets.grpc.messages import Malformed, Method, method_of, pruned
from tocsin.targets.grpc.outcome import failed, succeeded
from tocsin.targets.grpc.reflection import reflect
from tocsin.targets.http.breaker import HostBreaker, is_away
from tocsin.targets.http.headers import own_headers
from tocsin.targets.http.resolver import StillResolving, Unresolved
from tocsin.targets.secrets import NoSecrets, SecretOfOthers, Secrets, SecretUnavailable

REFLECTION_SECONDS: Final = 5.0
_NAME_WAIT: Final = SECOND
_SAMPLE: Final = dict.fromkeys(("fire_at", "execution", "attempt", "job", "name"), "2030-01-01T00:00:00Z")


class GrpcCaller:
    """One attempt at a method."""

    def __init__(
        self, channels: Channels, clock: Clock, secrets: Secrets | None = None, names: Names | None = None
    ) -> None:
        self._channels = channels
        self._clock = clock
        self._secrets = secrets or NoSecrets()
        self._names = names or NoNames()
        self._breaker = HostBreaker()

    def host(self, target: GrpcTarget) -> Host | None:
        """The name and port that the call goes to; None if there will be none."""
        try:
            place = grpc_place(target)
        except Refused:
            return None
        return place.host, place.port

    async def describe(self, tenant_id: int, target: GrpcTarget) -> bytes:
        """The descriptors of a target that is to be stored, once its method and its message were checked with
        them. Raises Refused, and Unavailable if the server's reflection is to be asked and does not
        answer."""
        given = descriptors_of(target)
        if given is None:
            given = await self._reflect(tenant_id, target)
        kept = pruned(given, target.method)
        body = fill_value(target.body, _SAMPLE) if target.template else target.body
        method_of(kept, target.method).encode(body)
        return kept

    async def call(self, assignment: Assignment, target: GrpcTarget, timeout: float) -> Outcome | Postponed:
        """Call it, unless its host is at rest; every way this can end is an outcome."""
        try:
            place = grpc_place(target)
            descriptors = descriptors_of(target)
            if descriptors is None:
                raise Refused("the target has no descriptors")
            method = method_of(descriptors, target.method)
        except Refused as error:
            return Outcome(Verdict.REJECTED, error=error.detail)
        host = (assignment.tenant_id, place.host, place.port)
        wait = self._breaker.wait(host, assignment.due_at, self._clock.now())
        if wait is not None:
            return Postponed(wait, Reason.HOST_REST)
        try:
            outcome = await self._attempt(assignment, target, place, method, timeout)
        except BaseException:
            self._breaker.forget(host)
            raise
        if isinstance(outcome, Outcome) and (outcome.detail is not None or is_away(outcome)):
            self._breaker.report(host, self._clock.now(), failed=is_away(outcome))
        else:
            self._breaker.forget(host)
        return outcome

    async def _attempt(
        self, assignment: Assignment, target: GrpcTarget, place: TargetUrl, method: Method, timeout: float
    ) -> Outcome | Postponed:
        began = asyncio.get_running_loop().time()
        try:
            secrets = await self._values(assignment.tenant_id, target)
            channel = await self._channel(assignment.tenant_id, target, place, secrets)
            message = method.encode(await self._body(assignment, target))
        except Refused as error:
            return Outcome(Verdict.REJECTED, error=error.detail)
        except SecretOfOthers:
            return Postponed(pause_for_newer(assignment.due_at, self._clock.now()), Reason.KEY)
        except StillResolving:
            return Postponed(_NAME_WAIT + round(_NAME_WAIT * random.random()), Reason.HOST_NAME)
        except Unresolved as error:
            return Outcome(Verdict.FAILED, error=str(error), failure=NETWORK)
        except (SecretUnavailable, Unavailable) as error:
            return Outcome(Verdict.FAILED, error=error.detail)
        left = max(0.05, timeout - (asyncio.get_running_loop().time() - began))
        metadata = [*own_headers(assignment).items(), *_metadata(target, secrets)]
        redactor = Redactor(secrets.values())
        try:
            answer = await channel.unary_unary(method.path)(message, metadata=metadata, timeout=left)
            return succeeded(method.decode(answer), redactor)
        except grpc.aio.AioRpcError as error:
            return failed(
                target, error.code().name, error.details() or "", error.trailing_metadata() or (), redactor
            )
        except Malformed as error:
            return Outcome(Verdict.REJECTED, str(error), {"status": "OK"})

    async def _reflect(self, tenant_id: int, target: GrpcTarget) -> bytes:
        try:
            async with asyncio.timeout(REFLECTION_SECONDS):
                secrets = await self._values(tenant_id, target)
                channel = await self._channel(tenant_id, target, grpc_place(target), secrets)
                return await reflect(channel, target.method, _metadata(target, secrets), REFLECTION_SECONDS)
        except (TimeoutError, StillResolving):
            raise Refused("the server's reflection did not answer in time", field="target.address") from None
        except Unresolved as error:
            raise Refused(str(error), field="target.address") from None

    async def _channel(
        self, tenant_id: int, target: GrpcTarget, place: TargetUrl, secrets: Mapping[str, str]
    ) -> Any:
        tls = target.tls
        certificate = (
            None if tls is None or tls.client_certificate is None else secrets[tls.client_certificate.secret]
        )
        ca = None if tls is None else tls.ca
        return await self._channels.channel(place, Credentials(tenant_id, target.plaintext, ca, certificate))

    async def _values(self, tenant_id: int, target: GrpcTarget) -> dict[str, str]:
        names = secrets_of_grpc(target)
        return await self._secrets.values(tenant_id, names) if names else {}

    async def _body(self, assignment: Assignment, target: GrpcTarget) -> dict[str, Any]:
        if not target.template:
            return dict(target.body)
        values = await values_for(assignment, {"target.body": target.body}, self._names)
        filled: dict[str, Any] = fill_value(target.body, values)
        return filled


def _metadata(target: GrpcTarget, secrets: Mapping[str, str]) -> list[tuple[str, str]]:
    return [
        (name, secrets[value.secret] if isinstance(value, SecretRef) else value)
        for name, value in target.metadata.items()
    ]
