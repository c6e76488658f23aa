-- What an API key may do. Index: api_key (hash).
select environment
from api_key
where hash = ?1
    and revoked_at is null;
