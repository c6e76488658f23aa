"""Background tasks. Expunging an application is the shortest of them."""

from dialect import models, options
from harness import Receiver, check, exercise, fails, pages, recent, same


def purge(world, messages):
    application = world.application()
    for _ in range(messages):
        world.message(application)
    return world.client.message.expunge_all_contents(application.id)


@exercise("background_task.list")
def list_all(world):
    tasks = [world.finished(purge(world, messages=n)) for n in range(3)]
    ask = lambda **query: world.client.background_task.list(options.BackgroundTaskListOptions(**query))
    for found, expected in zip(pages(lambda **query: ask(order="ascending", **query), limit=2), tasks, strict=True):
        same(found, expected)
    newest = ask(limit=1, order=models.Ordering.DESCENDING)
    assert [one.id for one in newest.data] == [tasks[2].id]
    assert len(ask(task=models.BackgroundTaskType.APPLICATION_PURGE_CONTENT).data) == 3
    assert ask(task=models.BackgroundTaskType.ENDPOINT_RECOVER).data == []
    assert len(ask(status=models.BackgroundTaskStatus.FINISHED).data) == 3
    assert ask(status=models.BackgroundTaskStatus.FAILED).data == []


@exercise("background_task.get")
def get(world):
    task = purge(world, messages=2)
    assert world.client.background_task.get(task.id).id == task.id
    ended = world.finished(task)
    check(
        world.client.background_task.get(task.id),
        id=task.id,
        status=models.BackgroundTaskStatus.FINISHED,
        task=models.BackgroundTaskType.APPLICATION_PURGE_CONTENT,
        updated_at=recent,
        data=lambda data: data["messagesPurged"] == 2,
    )
    assert ended.updated_at >= task.updated_at
    fails(404, lambda: world.client.background_task.get("qtask_" + "1" * 27), code="not_found")


@exercise("background_task.get")
def an_application_sees_its_own_tasks(world):
    application, other = world.application(), world.application()
    world.endpoint(application, Receiver())
    task = world.client.message.expunge_all_contents(application.id)
    token = lambda one: world.client.authentication.app_portal_access(one.id, models.AppPortalAccessIn()).token
    assert world.client_with(token(application)).background_task.get(task.id).id == task.id
    fails(404, lambda: world.client_with(token(other)).background_task.get(task.id))
