-- List every environment, oldest first. Scans: environments are few.
select {Environment}
from environment
order by id;
