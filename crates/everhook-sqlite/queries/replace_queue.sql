-- Configure a queue whose revision is still the given one; 0 where nobody has. Index: the primary key.
insert into queue (environment, name, state, limit_max, key_limit_max, rate_us, target_url, target_keys, updated_at, revision)
values (?1, ?2, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?3 + 1)
on conflict (environment, name) do update
set state = excluded.state,
    limit_max = excluded.limit_max,
    key_limit_max = excluded.key_limit_max,
    rate_us = excluded.rate_us,
    target_url = excluded.target_url,
    target_keys = excluded.target_keys,
    updated_at = excluded.updated_at,
    revision = excluded.revision
where queue.revision = ?3;
