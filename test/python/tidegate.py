"""Tidegate from Python, over nats-py: the code of docs/python.md.

Run with `make test-python`, or by hand against `make run`:

    tidegate limits set --resource gpt-4 rpm=100/min tpm=10000/min:20000
    python tidegate.py nats://127.0.0.1:4222
"""

import asyncio
import json
import math
import random
import sys
import time

import nats
from nats.errors import NoRespondersError, TimeoutError


class Denied(Exception):
    """The limits do not allow the request; nothing was spent."""

    def __init__(self, reply):
        super().__init__([limit for limit in reply["limits"] if limit.get("exceeded")])
        self.never = reply.get("never", False)
        self.retry_after = reply["retry_after_ms"] / 1000  # seconds, exact
        self.limits = reply["limits"]

    def jittered(self):
        """Seconds to wait, with jitter so that many callers do not retry at once."""
        return self.retry_after + random.random() * max(self.retry_after / 2, 0.01)


class Refused(Exception):
    """The request was refused; docs/protocol.md lists the codes."""

    def __init__(self, status, body):
        super().__init__(body["message"])
        self.status, self.code, self.field = status, body["code"], body.get("field")


class Unavailable(Exception):
    """No decision was possible. The tokens of an acquire may be spent."""


class Tidegate:
    """A client for a tenant, on the tenant's own connection."""

    def __init__(self, nc, namespace="default", timeout=2.0):
        self.nc, self.namespace, self.timeout = nc, namespace, timeout
        self.ahead = None  # upper bound of how far the store's time is ahead of ours, in ms

    async def ask(self, verb, request):
        subject = f"tidegate.v1.{self.namespace}.{verb}"
        headers = {"Tidegate-Timeout-Ms": str(int(self.timeout * 1000))}
        sent = time.monotonic() * 1000
        if self.ahead is not None:  # so that nothing is spent after our timeout
            headers["Tidegate-Deadline"] = str(math.ceil(sent + self.timeout * 1000 + self.ahead))
        try:
            reply = await self.nc.request(subject, json.dumps(request).encode(), timeout=self.timeout, headers=headers)
        except (NoRespondersError, TimeoutError) as e:
            raise Unavailable() from e
        told = (reply.headers or {}).get("Tidegate-Time")
        if told:
            self.ahead = int(told) + 1 - sent
        body = json.loads(reply.data)
        status = (reply.headers or {}).get("Nats-Service-Error-Code")
        if status == "503":
            raise Unavailable(body["message"])
        if status:
            raise Refused(status, body)
        return body

    async def acquire(self, entity, resource, consume):
        reply = await self.ask("acquire", {"entity": entity, "resource": resource, "consume": consume})
        if not reply["allowed"]:
            raise Denied(reply)
        return reply["lease"]

    async def adjust(self, lease, deltas):
        return (await self.ask("adjust", {"lease": lease, "deltas": deltas}))["lease"]

    async def release(self, lease):
        await self.ask("release", {"lease": lease})

    async def status(self, entity, resource):
        reply = await self.ask("status", {"entity": entity, "resource": resource})
        return {limit["name"]: limit["available"] for limit in reply["limits"]}


async def complete(tidegate, call, estimate=500):
    """Reserves an estimate, calls the model, and settles the difference."""
    lease = await tidegate.acquire("api-key-123", "gpt-4", {"rpm": 1, "tpm": estimate})
    try:
        answer, used = await call()
    except BaseException:
        await tidegate.release(lease)  # gives everything back
        raise
    if used != estimate:
        await tidegate.adjust(lease, {"tpm": used - estimate})
    return answer


async def patiently(tidegate, entity, resource, consume):
    """Acquires, and after a denial waits and retries."""
    while True:
        try:
            return await tidegate.acquire(entity, resource, consume)
        except Denied as denied:
            if denied.never:
                raise
            await asyncio.sleep(denied.jittered())


async def connect(url, namespace="default", **options):
    """Options are nats-py's: user and password, user_credentials, tls."""
    nc = await nats.connect(
        url,
        name="checkout",
        max_reconnect_attempts=-1,
        inbox_prefix=f"_INBOX_{namespace}",  # the permissions allow replies under it only
        **options,
    )
    return Tidegate(nc, namespace)


async def main(url):
    """Does what the functions above say, and fails where they do not."""
    tidegate = await connect(url)

    async def model():
        return "an answer", 730

    async def broken():
        raise RuntimeError("the model is down")

    before = await tidegate.status("api-key-123", "gpt-4")
    assert await complete(tidegate, model) == "an answer"
    after = await tidegate.status("api-key-123", "gpt-4")
    assert before["rpm"] - after["rpm"] in (0, 1), (before, after)  # one comes back every 0.6 s
    assert 0 < before["tpm"] - after["tpm"] <= 730, (before, after)
    try:
        await complete(tidegate, broken)
        raise AssertionError("the model was up")
    except RuntimeError:
        pass
    try:
        await patiently(tidegate, "api-key-123", "gpt-4", {"rpm": 101})
        raise AssertionError("more than there can be was admitted")
    except Denied as denied:
        assert denied.never
    for requests in (40, 40, 22):  # the last one has to wait
        await patiently(tidegate, "api-key-123", "gpt-4", {"rpm": requests})
    try:
        await tidegate.acquire("api-key-123", "gpt-5", {"rpm": 1})
        raise AssertionError("there are no limits")
    except Refused as refused:
        assert refused.code == "no_limits", refused
    nobody = Tidegate(tidegate.nc, "nowhere", timeout=0.5)
    try:
        await nobody.acquire("api-key-123", "gpt-4", {"rpm": 1})
        raise AssertionError("nobody answered")
    except (Refused, Unavailable):
        pass
    await tidegate.nc.drain()
    print("all is well")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "nats://127.0.0.1:4222"))
