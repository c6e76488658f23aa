-- Find the permissions of an active API key. Index: the unique index on hash.
select environment
from everhook.api_key
where hash = :hash
    and revoked_at is null;
