-- What an API key may do. Index: api_key (hash).
select environment
from api_key
where hash = :hash
    and revoked_at is null;
