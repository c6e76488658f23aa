-- Revoke an API key for ever; it stays listed. Index: the primary key.
update api_key
set revoked_at = :now
where id = :id
    and revoked_at is null;
