-- Configure a queue that nobody has. Index: the primary key.
-- Differs: the caller knows that nobody has.
insert into queue (environment, name, state, limit_max, key_limit_max, rate_us, target_url, target_keys, updated_at, revision)
values (?1, ?2, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?3 + 1);
