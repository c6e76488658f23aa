-- Note that an API key was used now. Index: the primary key.
update everhook.api_key
set last_used_at = :now
where id = :id
    and revoked_at is null;
