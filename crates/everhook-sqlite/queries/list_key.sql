-- Every API key, oldest first. Index: the primary key; keys are few.
select id, environment, hint, created_at, revoked_at
from api_key
order by id;
