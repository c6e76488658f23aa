-- An environment by its public id. Index: the unique one on org.
select id, org, name
from everhook.environment
where org = $1;
