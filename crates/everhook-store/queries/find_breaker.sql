-- Find the circuit breaker of an endpoint, and the hold of its lane. Index: the primary key.
select {BreakerRecord}
from everhook.lane
where environment = :environment
    and id = :endpoint;
