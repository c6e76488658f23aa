-- Write the records of jobs.
-- Differs: many rows at once.
insert into everhook.job
    (environment, id, queue, kind, name, payload, priority, concurrency_key, tags, batch, rest, created_at)
select environment, id, queue, kind, name, payload, priority, concurrency_key, tags, batch, rest, $12
from unnest(
    $1::int[], $2::bytea[], $3::text[], $4::text[], $5::text[], $6::bytea[], $7::smallint[], $8::text[], $9::text[], $10::bytea[], $11::text[]
) as fresh (environment, id, queue, kind, name, payload, priority, concurrency_key, tags, batch, rest);
