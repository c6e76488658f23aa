-- Find the position of a consumer. Index: the primary key.
select position, generation
from everhook.poll_consumer
where environment = :environment
    and endpoint = :endpoint
    and name = :name;
