"""gRPC targets as they are written, and what statuses and metadata mean."""

from typing import Any

import pytest
from google.protobuf import any_pb2, duration_pb2
from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.errors import Refused
from tocsin.domain.grpc_target import GrpcTarget, GrpcTls, check_grpc, grpc_place
from tocsin.domain.instant import DAY, SECOND
from tocsin.domain.outcome import Verdict
from tocsin.domain.secrets import Redactor, SecretRef
from tocsin.domain.target import template_parts, timeout_of
from tocsin.targets.grpc.outcome import failed, succeeded

TARGET = GrpcTarget("orders.example.com:443", "shop.Orders/Place")
NOTHING = Redactor(())


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"address": "orders.example.com/path"}, "target.address"),
        ({"address": "user@orders.example.com"}, "target.address"),
        ({"address": "127.1:443"}, "target.address"),
        ({"address": "unix:/run/socket"}, "target.address"),
        ({"method": "Orders"}, "target.method"),
        ({"method": "/shop.Orders/Place"}, "target.method"),
        ({"body": [1]}, "target.body"),
        ({"body": {"a": "{what}"}, "template": True}, "target.body.a"),
        ({"descriptors": "no base64!"}, "target.descriptors"),
        ({"metadata": {"X-Upper": "a"}}, "target.metadata.X-Upper"),
        ({"metadata": {"grpc-timeout": "1S"}}, "target.metadata.grpc-timeout"),
        ({"metadata": {"token-bin": "a"}}, "target.metadata.token-bin"),
        ({"metadata": {"a": "line\nbreak"}}, "target.metadata.a"),
        ({"metadata": {"a": SecretRef("no such/name")}}, "target.metadata.a"),
        ({"plaintext": True, "tls": GrpcTls()}, "target.tls"),
        ({"tls": GrpcTls(ca="nothing")}, "target.tls.ca"),
        ({"timeout": "2d"}, "target.timeout"),
        ({"retry_on": ("SOMETIMES",)}, "target.retry_on"),
    ],
)
def test_what_could_never_be_called_is_refused_with_its_field(fields: dict[str, Any], field: str) -> None:
    written = {"address": TARGET.address, "method": TARGET.method} | fields
    with pytest.raises(Refused) as refused:
        check_grpc(GrpcTarget(**written))
    assert refused.value.field == field


def test_a_target_says_where_it_goes_how_long_it_takes_and_what_is_filled_in() -> None:
    check_grpc(TARGET)
    assert (grpc_place(TARGET).host, grpc_place(TARGET).port) == ("orders.example.com", 443)
    assert timeout_of(GrpcTarget("h", "a.B/C", timeout="5s"), "1h") == 5 * SECOND
    assert template_parts(GrpcTarget("h", "a.B/C", body={"a": 1}, template=True)) == {"target.body": {"a": 1}}
    assert template_parts(TARGET) == {}


def test_a_server_says_how_long_to_wait_in_three_ways() -> None:
    def wait(*metadata: tuple[str, Any]) -> Any:
        return failed(TARGET, "UNAVAILABLE", "", metadata, NOTHING).retry_after

    assert wait(("grpc-retry-pushback-ms", "250")) == SECOND // 4
    assert wait(("retry-after", "3")) == 3 * SECOND
    assert wait(("retry-after", "999999999")) == DAY
    assert wait(("retry-after", "soon"), ("grpc-retry-pushback-ms", "x")) is None
    assert wait(("grpc-status-details-bin", retry_info(2, 500_000_000))) == 5 * SECOND // 2


def retry_info(seconds: int, nanos: int) -> bytes:
    delay = duration_pb2.Duration(seconds=seconds, nanos=nanos).SerializeToString()
    info = any_pb2.Any(
        type_url="type.googleapis.com/google.rpc.RetryInfo", value=b"\x0a" + bytes([len(delay)]) + delay
    )
    detail = info.SerializeToString()
    return b"\x08\x0e\x12\x04busy\x1a" + bytes([len(detail)]) + detail


@given(st.binary(max_size=80))
def test_details_that_make_no_sense_say_nothing(data: bytes) -> None:
    for details in (data, retry_info(1, 0)[: len(data)], retry_info(1, 0) + data):
        outcome = failed(TARGET, "UNAVAILABLE", "", [("grpc-status-details-bin", details)], NOTHING)
        assert outcome.verdict is Verdict.FAILED
        assert outcome.retry_after is None or 0 <= outcome.retry_after <= DAY


def test_answers_are_kept_without_nul_and_without_secrets() -> None:
    done = succeeded({"a\0": ["b\0", 1, None], "c": "s3cret"}, Redactor(["s3cret"]))
    assert done.detail == {"status": "OK", "message": {"a\\x00": ["b\\x00", 1, None], "c": "***"}}
