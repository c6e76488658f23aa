-- Claim the key of a request, if it is free or expired. Returns its holder if it was claimed. A repeated claim of the
-- same holder succeeds. Index: the primary key.
-- Differs: reads the clock of the database.
insert into everhook.request as held (environment, hash, holder, body, expires_at)
values (:environment, :hash, :holder, :body, everhook.now_us() + :claim_us)
on conflict (environment, hash) do update
set holder = excluded.holder,
    body = excluded.body,
    status = null,
    answer = null,
    expires_at = excluded.expires_at
where held.expires_at <= everhook.now_us()
    or (held.holder = excluded.holder and held.status is null)
returning held.holder;
