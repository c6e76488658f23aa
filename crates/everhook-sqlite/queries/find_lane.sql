-- Find the state of a lane that an append needs. Index: the primary key.
select state, waiting, hold_until
from lane
where environment = :environment
    and id = :id;
