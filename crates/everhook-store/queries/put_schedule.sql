-- Add the state of a schedule, or start it anew. Index: the primary key.
insert into everhook.schedule (environment, id, next, queued, look_at)
values (:environment, :id, :next, :queued, :look_at)
on conflict (environment, id) do update
set next = excluded.next,
    queued = excluded.queued,
    look_at = excluded.look_at;
