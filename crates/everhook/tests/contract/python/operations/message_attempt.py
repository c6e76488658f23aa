"""Attempts, and the state of a message at its endpoints."""

from dialect import models, options
from harness import Receiver, ago, attempt_out, check, endpoint_out, exercise, fails, message_out, pages, recent
from harness import same, until

SUCCESS, PENDING, FAIL = (getattr(models.MessageStatus, name) for name in ("SUCCESS", "PENDING", "FAIL"))
FAILED = {"status": FAIL, "status_text": "fail", "response_status_code": 500}


def place(world, **fields):
    """An application with an endpoint that has taken one message."""
    application, receiver = world.application(), Receiver()
    endpoint = world.endpoint(application, receiver, **fields)
    message = world.message(application, channels=["red"], tags=["a"])
    world.attempted(application, message)
    return application, endpoint, message, receiver


@exercise("message_attempt.list_by_endpoint")
def list_by_endpoint(world):
    application, endpoint, first, receiver = place(world)
    receiver.status = 500
    second = world.message(application, event_type="invoice.sent")
    world.exhausted(application, second)
    call = world.client.message_attempt.list_by_endpoint
    ask = lambda **query: call(application.id, endpoint.id, options.MessageAttemptListByEndpointOptions(**query))
    found = pages(ask, limit=2)
    assert [one.msg_id for one in found] == [second.id] * 5 + [first.id]
    for attempt in found[:5]:
        check(attempt, **attempt_out(receiver, msg_id=second.id, endpoint_id=endpoint.id, **FAILED))
    check(found[5], **attempt_out(receiver, msg_id=first.id, endpoint_id=endpoint.id))
    good = [{"status": SUCCESS}, {"status_code_class": models.StatusCodeClass.CODE2XX}, {"channel": "red"}]
    for filters in [*good, {"tag": "a"}, {"event_types": ["invoice.paid"]}]:
        assert [one.id for one in ask(**filters).data] == [found[5].id], filters
    assert len(ask(status=FAIL).data) == len(ask(status_code_class=models.StatusCodeClass.CODE5XX).data) == 5
    assert ask(before=ago(hours=1)).data == [] and len(ask(after=ago(hours=1)).data) == 6
    (with_message,) = ask(with_msg=True, with_content=True, status=SUCCESS).data
    assert with_message.response == "ok"
    expected = {"id": first.id, "channels": ["red"], "tags": ["a"]}
    check(with_message.msg, **message_out(payload=lambda payload: payload in ({}, {"amount": 12}), **expected))
    fails(404, lambda: call(application.id, "no-such-endpoint"), code="not_found")


@exercise("message_attempt.list_by_msg")
def list_by_msg(world):
    application, receiver, other = world.application(), Receiver(), Receiver(status=404)
    endpoint, failing = world.endpoint(application, receiver), world.endpoint(application, other)
    message = world.message(application)
    call = world.client.message_attempt.list_by_msg
    ask = lambda **query: call(application.id, message.id, options.MessageAttemptListByMsgOptions(**query))
    until("all attempts are listed", lambda: len(ask().data) == 6)
    found = pages(ask, limit=4)
    assert [one.id for one in found] == sorted((one.id for one in found), reverse=True), "newest first"
    (good,) = ask(endpoint_id=endpoint.id).data
    check(good, **attempt_out(receiver, msg_id=message.id, endpoint_id=endpoint.id))
    bad = {"status": FAIL, "status_text": "fail", "response_status_code": 404}
    for attempt in ask(endpoint_id=failing.id).data:
        check(attempt, **attempt_out(other, msg_id=message.id, endpoint_id=failing.id, **bad))
    assert [one.id for one in ask(status=SUCCESS).data] == [good.id]
    assert len(ask(status_code_class=models.StatusCodeClass.CODE4XX).data) == 5
    assert ask(with_content=True, status=SUCCESS).data[0].response == "ok"
    assert ask(before=ago(hours=1)).data == [] and len(ask(after=ago(hours=1)).data) == 6
    fails(404, lambda: call(application.id, "no-such-message"), code="not_found")
    fails(404, lambda: ask(endpoint_id="no-such-endpoint"), code="not_found")


@exercise("message_attempt.list_attempted_messages")
def list_attempted_messages(world):
    application, endpoint, first, receiver = place(world)
    receiver.status = 500
    second = world.message(application, event_type="invoice.sent")
    call = world.client.message_attempt.list_attempted_messages
    ask = lambda **query: call(application.id, endpoint.id, options.MessageAttemptListAttemptedMessagesOptions(**query))
    newest = lambda: ask(with_content=True).data[0]
    retry = until("a retry is due", lambda: (found := newest()).next_attempt and found)
    expected = {"id": second.id, "event_type": "invoice.sent", "status": PENDING, "status_text": "pending"}
    check(retry, **message_out(payload={"amount": 12}, next_attempt=recent, **expected))
    world.exhausted(application, second)
    failed, delivered = pages(lambda **query: ask(with_content=True, **query), limit=1)
    expected.update(status=FAIL, status_text="fail", next_attempt=None)
    check(failed, **message_out(payload={"amount": 12}, **expected))
    expected = {"id": first.id, "channels": ["red"], "tags": ["a"], "status": SUCCESS, "status_text": "success"}
    check(delivered, **message_out(payload={"amount": 12}, next_attempt=None, **expected))
    good = [{"status": SUCCESS}, {"channel": "red"}, {"tag": "a"}, {"event_types": ["invoice.paid"]}]
    for filters in good:
        assert [one.id for one in ask(**filters).data] == [first.id], filters
    assert [one.id for one in ask(status=FAIL).data] == [second.id]
    assert ask(before=ago(hours=1)).data == [] and len(ask(after=ago(hours=1)).data) == 2
    assert [one.payload for one in ask(with_content=False).data] == [{}, {}]
    fails(404, lambda: call(application.id, "no-such-endpoint"), code="not_found")


@exercise("message_attempt.list_attempted_destinations")
def list_attempted_destinations(world):
    application, receivers = world.application(), [Receiver(), Receiver(status=500)]
    good, bad = (world.endpoint(application, receiver, description="One") for receiver in receivers)
    message = world.message(application)
    call = world.client.message_attempt.list_attempted_destinations
    query = options.MessageAttemptListAttemptedDestinationsOptions
    ask = lambda **fields: call(application.id, message.id, query(**fields))
    world.attempted(application, message, count=5)
    waiting = until("a retry is due", lambda: (found := ask().data[1]).next_attempt and found)
    assert waiting.status == PENDING and waiting.next_attempt > message.timestamp
    until("the delivery is given up", lambda: ask().data[1].status == FAIL)
    states = [{"status": SUCCESS, "status_text": "success"}, {"status": FAIL, "status_text": "fail"}]
    found = pages(ask, limit=1)
    for destination, endpoint, state in zip(found, (good, bad), states, strict=True):
        expected = endpoint_out(id=endpoint.id, url=endpoint.url, description="One", next_attempt=None, **state)
        del expected["metadata"]
        check(destination, **expected)
    assert ask(limit=1).done is False
    world.client.endpoint.delete(application.id, good.id)
    assert [one.id for one in ask().data] == [good.id, bad.id], "a deleted endpoint stays in the history"
    fails(404, lambda: call(application.id, "no-such-message"), code="not_found")


@exercise("message_attempt.get")
def get(world):
    application, endpoint, message, receiver = place(world)
    (attempt,) = world.attempts(application, message, with_content=True)
    found = world.client.message_attempt.get(application.id, message.id, attempt.id)
    check(found, **attempt_out(receiver, id=attempt.id, msg_id=message.id, endpoint_id=endpoint.id, response="ok"))
    same(found, attempt)
    missing = "atmpt_" + "1" * 27
    fails(404, lambda: world.client.message_attempt.get(application.id, message.id, missing), code="not_found")


@exercise("message_attempt.expunge_content")
def expunge_content(world):
    application, _, message, _ = place(world)
    (attempt,) = world.attempts(application, message)
    assert world.client.message_attempt.expunge_content(application.id, message.id, attempt.id) is None
    assert world.client.message_attempt.get(application.id, message.id, attempt.id).response == "EXPUNGED"
    payload = world.client.message.get(application.id, message.id, options.MessageGetOptions(with_content=True)).payload
    assert payload == {"amount": 12}, "only the response is gone"


@exercise("message_attempt.resend")
def resend(world):
    application, endpoint, message, receiver = place(world)
    first = receiver.next()
    call = world.client.message_attempt.resend
    assert type(call(application.id, message.id, endpoint.id)).__name__ == "EmptyResponse"
    second = receiver.next()
    assert first[1] == second[1] and first[0]["webhook-id"] == second[0]["webhook-id"] == message.id
    newest, oldest = world.attempted(application, message, count=2)
    manual = models.MessageAttemptTriggerType.MANUAL
    check(newest, **attempt_out(receiver, msg_id=message.id, endpoint_id=endpoint.id, trigger_type=manual))
    assert oldest.trigger_type == models.MessageAttemptTriggerType.SCHEDULED
    fails(404, lambda: call(application.id, "no-such-message", endpoint.id), code="not_found")
    fails(404, lambda: call(application.id, message.id, "no-such-endpoint"), code="not_found")
    world.client.message.expunge_content(application.id, message.id)
    fails(400, lambda: call(application.id, message.id, endpoint.id), code="missing_payload")
