-- Find the end of the audit log of an environment. Index: the primary key.
select seq, hash
from everhook.audit
where environment = :environment
order by seq desc
limit 1;
