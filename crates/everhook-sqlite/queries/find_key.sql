-- Find an API key that is not revoked. Index: api_key (hash).
select {KeyRecord}
from api_key
where hash = :hash
    and revoked_at is null;
