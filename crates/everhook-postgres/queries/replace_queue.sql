-- Change a queue that was read at a revision. Index: the primary key.
update everhook.queue
set state = :state,
    limit_max = :limit_max,
    key_limit_max = :key_limit_max,
    rate_us = :rate_us,
    target_url = :target_url,
    target_keys = :target_keys,
    updated_at = everhook.now_us(),
    revision = revision + 1
where environment = :environment
    and name = :name
    and revision = :revision
returning {Queue};
