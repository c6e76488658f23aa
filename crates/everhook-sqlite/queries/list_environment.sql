-- Every environment, oldest first. Scans: environments are few.
select id, org, name
from environment
order by id;
