-- What a key that works may do. Index: the unique one on hash.
select environment
from everhook.api_key
where hash = :hash
    and revoked_at is null;
