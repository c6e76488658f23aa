-- Change a queue that was read at a revision. Index: the primary key.
update everhook.queue
set state = $3,
    limit_max = $4,
    key_limit_max = $5,
    rate_us = $6,
    target_url = $7,
    target_keys = $8,
    updated_at = everhook.now_us(),
    revision = revision + 1
where environment = $1
    and name = $2
    and revision = $9
returning
    name, state, limit_max, key_limit_max, rate_us, target_url, target_keys, updated_at,
    revision;
