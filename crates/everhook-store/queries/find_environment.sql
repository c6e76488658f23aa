-- Find an environment by its public id. Index: the unique index on org.
select {Environment}
from everhook.environment
where org = :org;
