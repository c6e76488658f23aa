-- Stop the queue of a lane whose target answered 410, unless someone paused it. Indexes: the primary keys.
insert into queue (environment, name, state, updated_at, revision)
select environment, queue, 2, ?3, 1
from lane
where environment = ?1
    and id = ?2
    and queue is not null
on conflict (environment, name) do update
set state = 2,
    updated_at = excluded.updated_at,
    revision = revision + 1
where state = 0;
