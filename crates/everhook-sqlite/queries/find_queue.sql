-- A queue that was configured. Index: the primary key.
select name, state, limit_max, key_limit_max, rate_us, target_url, target_keys, updated_at, revision, booked_until
from queue
where environment = ?1
    and name = ?2;
