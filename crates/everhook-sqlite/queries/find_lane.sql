-- Find the state of a lane that an append needs. Index: the primary key.
select state, waiting, hold_until
from lane
where environment = ?1
    and id = ?2;
