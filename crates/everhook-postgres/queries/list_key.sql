-- Every key, oldest first.
select id, environment, hint, created_at, revoked_at
from everhook.api_key
order by created_at, id;
