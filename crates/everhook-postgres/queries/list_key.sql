-- List every API key, oldest first.
select {KeyRow}
from everhook.api_key
order by created_at, id;
