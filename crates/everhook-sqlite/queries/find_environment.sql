-- The environment with this public id. Index: environment (org).
select {Environment}
from environment
where org = :org;
