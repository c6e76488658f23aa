-- Find an API key that is not revoked. Index: the unique index on hash.
select {KeyRecord}
from everhook.api_key
where hash = :hash
    and revoked_at is null;
