-- Store the position of a consumer, unless a seek has moved it in the meantime. An unchanged position is written once
-- an hour, for retention. Index: the primary key.
insert into everhook.poll_consumer (environment, endpoint, name, position, generation, used_at)
values (:environment, :endpoint, :name, :position, :generation, :now)
on conflict (environment, endpoint, name) do update
set position = excluded.position,
    generation = excluded.generation,
    used_at = excluded.used_at
where poll_consumer.generation <= excluded.generation
    and (
        poll_consumer.position <> excluded.position
        or poll_consumer.generation <> excluded.generation
        or poll_consumer.used_at < excluded.used_at - 3600000000
    );
