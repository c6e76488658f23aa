-- Change a queue that was read at a revision. Index: the primary key.
update queue
set state = ?4,
    limit_max = ?5,
    key_limit_max = ?6,
    rate_us = ?7,
    target_url = ?8,
    target_keys = ?9,
    updated_at = ?10,
    revision = revision + 1
where environment = ?1
    and name = ?2
    and revision = ?3;
