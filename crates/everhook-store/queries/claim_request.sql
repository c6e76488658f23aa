-- Claim the key of a request, if it is free or expired. Returns its holder if it was claimed. A repeated claim of the
-- same holder succeeds. Index: the primary key.
insert into everhook.request (environment, hash, holder, body, expires_at)
values (:environment, :hash, :holder, :body, :now + :claim_us)
on conflict (environment, hash) do update
set holder = excluded.holder,
    body = excluded.body,
    status = null,
    answer = null,
    expires_at = excluded.expires_at
where request.expires_at <= :now
    or (request.holder = excluded.holder and request.status is null)
returning holder;
