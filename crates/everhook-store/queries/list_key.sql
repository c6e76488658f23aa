-- List every API key, oldest first.
select {KeyRecord}
from everhook.api_key
order by created_at, id;
