-- Find an environment by its public id. Index: environment (org).
select {Environment}
from environment
where org = :org;
