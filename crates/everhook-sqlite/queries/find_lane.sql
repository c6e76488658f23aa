-- A lane, to see whether new deliveries wait in it or it is held. Index: the primary key.
select state, waiting, hold_until
from lane
where environment = ?1
    and id = ?2;
