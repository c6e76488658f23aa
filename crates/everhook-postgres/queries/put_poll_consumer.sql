-- Store the position of a consumer, unless a seek has moved it in the meantime. An unchanged position is written once an
-- hour, for retention. Index: the primary key.
-- Differs: reads the clock of the database.
insert into everhook.poll_consumer as known (environment, endpoint, name, position, generation, used_at)
values (:environment, :endpoint, :name, :position, :generation, everhook.now_us())
on conflict (environment, endpoint, name) do update
set position = excluded.position,
    generation = excluded.generation,
    used_at = excluded.used_at
where known.generation <= excluded.generation
    and (
        known.position <> excluded.position
        or known.generation <> excluded.generation
        or known.used_at < excluded.used_at - 3600000000
    );
