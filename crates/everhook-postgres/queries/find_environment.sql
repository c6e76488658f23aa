-- An environment by its public id. Index: the unique one on org.
select {Environment}
from everhook.environment
where org = :org;
