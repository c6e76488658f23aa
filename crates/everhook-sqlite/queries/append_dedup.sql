-- Take a dedup key, if it is free or expired. Index: the primary key.
-- Differs: one key at a time, because there is one writer; one changed row means that the key was taken.
insert into dedup (environment, scope, hash, object, body, expires_at)
values (:environment, :scope, :hash, :object, :body, :expires_at)
on conflict (environment, scope, hash) do update
set object = excluded.object,
    body = excluded.body,
    expires_at = excluded.expires_at
where dedup.expires_at <= :now;
