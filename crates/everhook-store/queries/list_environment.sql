-- List every environment, oldest first.
select {Environment}
from everhook.environment
order by id;
