-- A lane, to see whether it has a backlog or is held. Index: the primary key.
select state, next_due, hold_until
from lane
where environment = ?1
    and id = ?2;
