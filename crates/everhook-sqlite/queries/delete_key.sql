-- Revoke an API key for ever; it stays listed. Index: the primary key.
update api_key
set revoked_at = ?2
where id = ?1
    and revoked_at is null;
