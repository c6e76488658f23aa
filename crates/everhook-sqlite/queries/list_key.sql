-- List every API key, oldest first. Index: the primary key; keys are few.
select {KeyRecord}
from api_key
order by id;
