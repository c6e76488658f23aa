-- The environment with this public id. Index: environment (org).
select id, org, name
from environment
where org = ?1;
