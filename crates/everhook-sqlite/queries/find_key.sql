-- Find the permissions of an active API key. Index: api_key (hash).
select environment
from api_key
where hash = :hash
    and revoked_at is null;
