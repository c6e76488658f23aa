-- Revoke an API key; it stays in the list. Index: the primary key.
update everhook.api_key
set revoked_at = :now
where id = :id
    and revoked_at is null;
