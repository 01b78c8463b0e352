"""Failures of a server: what is tried again, what is not, what ends everything, and where the key never shows."""

import base64
import threading
import time

import pytest
from fake_server import FakeServer

from utilitune.errors import ConfigError
from utilitune.generator.server_address import ServerAddress
from utilitune.generator.server_client import Patience, ServerClient, _retry_after
from utilitune.generator.server_error import RequestFailed, ServerUnusable

SECRET = "sk-very-secret-0123"


@pytest.fixture
def client_of():
    servers = []

    def make(reply, address=None, **patience):
        servers.append(FakeServer(reply))
        named = address(servers[-1].url) if address else ServerAddress(servers[-1].url, environment={})
        client = ServerClient(named, Patience(**{"backoff": 0.01, "timeout": 5.0, **patience}))
        return client, servers[-1]

    yield make
    for server in servers:
        server.close()


def test_replies_belong_to_their_requests_whatever_the_order_of_arrival(client_of):
    def reply(path, body):
        time.sleep(0.02 * (7 - body["row"] % 8))
        return {"row": body["row"]}

    client, server = client_of(reply, concurrency=8)
    calls = [("/x", {"row": row}) for row in range(16)]
    assert [each["row"] for each in client.post_all(calls)] == list(range(16))
    assert [each["row"] for each in client.post_all(calls[::-1])] == list(range(16))[::-1]
    assert [body["row"] for _, body in server.requests] != [*range(16), *range(16)[::-1]]


def test_concurrency_never_exceeds_the_limit(client_of):
    client, server = client_of(lambda path, body: time.sleep(0.02) or {}, concurrency=3)
    client.post_all([("/x", {"row": row}) for row in range(12)])
    assert server.most == 3


@pytest.mark.parametrize("status", [400, 404, 413, 422])
def test_a_refusal_is_not_tried_again(client_of, status):
    client, server = client_of(lambda path, body: (status, {"error": {"message": "no such thing"}}))
    with pytest.raises(RequestFailed, match=f"HTTP {status}: no such thing"):
        client.post("/x", {})
    assert len(server.requests) == 1
    assert client.counts == {"requests": 1, "retries": 0, "failed_requests": 1}


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503])
def test_what_may_pass_is_tried_again_until_it_does(client_of, status):
    left = [status, status]
    client, server = client_of(lambda path, body: (left.pop(), {}) if left else {"ok": True})
    assert client.post("/x", {}) == {"ok": True}
    assert len(server.requests) == 3
    assert client.counts == {"requests": 3, "retries": 2, "failed_requests": 0}


def test_attempts_are_bounded(client_of):
    client, server = client_of(lambda path, body: (500, b"boom"), attempts=3)
    with pytest.raises(RequestFailed, match="HTTP 500: boom, 3 times"):
        client.post("/x", {})
    assert len(server.requests) == 3


def test_the_time_that_a_server_names_is_waited(client_of):
    left = [(429, {}, {"Retry-After": "0.3"})]
    client, _ = client_of(lambda path, body: left.pop() if left else {})
    start = time.monotonic()
    client.post("/x", {})
    assert time.monotonic() - start >= 0.3


def test_retry_after_in_its_two_forms():
    assert _retry_after(None) is None
    assert _retry_after("2") == 2.0
    assert _retry_after("Thu, 01 Jan 1970 00:01:40 GMT", now=lambda: 70.0) == 30.0
    assert _retry_after("Thu, 01 Jan 1970 00:00:10 GMT", now=lambda: 70.0) == 0.0
    assert _retry_after("soon") is None


def test_a_body_cut_short_and_one_that_is_no_json_are_tried_again(client_of):
    left = [(200, b"<html>", {}), (200, b'{"a": 1', {"Content-Length": "100"})]
    client, server = client_of(lambda path, body: left.pop() if left else {"a": 1})
    assert client.post("/x", {}) == {"a": 1}
    assert len(server.requests) == 3


def test_a_slow_server_is_given_up(client_of):
    gate = threading.Event()
    client, _ = client_of(lambda path, body: gate.wait(2) and {}, timeout=0.1, attempts=2)
    with pytest.raises(RequestFailed, match=r"did not answer \(TimeoutError\), 2 times"):
        client.post("/x", {})
    gate.set()


def test_no_server_at_all():
    client = ServerClient(ServerAddress("http://127.0.0.1:9/v1", environment={}), Patience(attempts=1))
    with pytest.raises(RequestFailed, match="did not answer") as caught:
        client.post("/x", {})
    assert not caught.value.heard


def test_rows_fail_alone(client_of):
    client, _ = client_of(
        lambda path, body: (400, {"error": "bad row"}) if body["row"] % 3 == 0 else {"n": body["row"]}
    )
    outcomes = client.post_all([("/x", {"row": row}) for row in range(9)])
    assert [isinstance(each, RequestFailed) for each in outcomes] == [row % 3 == 0 for row in range(9)]


def test_one_failure_of_everything_ends_everything(client_of):
    client, server = client_of(lambda path, body: (400, {"error": "no chat template"}), concurrency=2, equal_failures=5)
    with pytest.raises(ServerUnusable, match=r"stopped after [56] requests failed alike: .*no chat template"):
        client.post_all([("/x", {"row": row}) for row in range(1000)])
    assert len(server.requests) <= 6


def test_one_bad_row_asked_again_and_again_ends_nothing(client_of):
    client, _ = client_of(lambda path, body: (400, {"error": "bad row"}), equal_failures=3)
    for _ in range(9):
        assert isinstance(client.post_all([("/x", {"row": 1})])[0], RequestFailed)


def test_a_refused_key_ends_everything_and_names_the_variable(client_of):
    client, server = client_of(
        lambda path, body: (401, {"error": {"message": f"Incorrect API key provided: {SECRET[:8]}***"}}),
        lambda url: ServerAddress(url, "MY_KEY", {"MY_KEY": SECRET}),
    )
    with pytest.raises(ServerUnusable, match=r"refused the key.*MY_KEY") as caught:
        client.post("/x", {})
    assert "sk-" not in str(caught.value)
    assert len(server.requests) == 1


class TestSecrets:
    def test_the_key_is_sent_and_shown_nowhere(self, client_of):
        client, server = client_of(
            lambda path, body: (400, {"error": {"message": f"you sent Bearer {SECRET}"}}),
            lambda url: ServerAddress(url, None, {"OPENAI_API_KEY": f"{SECRET}\n"}),
        )
        with pytest.raises(RequestFailed, match=r"you sent Bearer \*\*\*") as caught:
            client.post("/x", {})
        assert server.headers[0]["Authorization"] == f"Bearer {SECRET}"
        assert SECRET not in f"{caught.value!r} {client.address!r} {client.address.shown} {vars(client)}"

    def test_a_password_in_the_address_is_sent_and_shown_nowhere(self, client_of):
        client, server = client_of(
            lambda path, body: (400, {"error": "password was p%40ss or p@ss"}),
            lambda url: ServerAddress(url.replace("://", "://me:p%40ss@"), None, {}),
        )
        with pytest.raises(RequestFailed) as caught:
            client.post("/x", {})
        assert server.headers[0]["Authorization"] == "Basic " + base64.b64encode(b"me:p@ss").decode()
        assert "ss" not in str(caught.value).replace("password", "")
        assert client.address.shown == server.url

    def test_no_redirect_takes_the_key_elsewhere(self, client_of):
        other = FakeServer(lambda path, body: {"stolen": True})
        client, _ = client_of(
            lambda path, body: (302, {}, {"Location": other.url}),
            lambda url: ServerAddress(url, None, {"OPENAI_API_KEY": SECRET}),
        )
        with pytest.raises(RequestFailed, match="HTTP 302"):
            client.post("/x", {})
        assert other.requests == []
        other.close()

    @pytest.mark.parametrize(
        ("url", "variable", "environment"),
        [
            ("localhost:8000/v1", None, {}),
            ("ftp://host/v1", None, {}),
            (f"http://host/v1?key={SECRET}", None, {}),
            ("http://host/v1", "MY_KEY", {}),
            ("http://host/v1", None, {"OPENAI_API_KEY": f"{SECRET}\nX-Evil: 1"}),
            ("http://host/v1", None, {"OPENAI_API_KEY": f"{SECRET}é"}),
        ],
    )
    def test_what_cannot_be_sent_is_refused_without_being_quoted(self, url, variable, environment):
        with pytest.raises(ConfigError) as caught:
            ServerAddress(url, variable, environment)
        assert SECRET not in str(caught.value)
