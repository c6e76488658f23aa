-- Configure a queue, unless someone has. Index: the primary key.
insert into everhook.queue
    (environment, name, state, limit_max, key_limit_max, rate_us, target_url, target_keys, updated_at, revision)
values (:environment, :name, :state, :limit_max, :key_limit_max, :rate_us, :target_url, :target_keys, everhook.now_us(), 1)
on conflict (environment, name) do nothing
returning {Queue};
