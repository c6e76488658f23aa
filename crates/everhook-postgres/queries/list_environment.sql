-- Every environment, oldest first.
select id, org, name
from everhook.environment
order by id;
