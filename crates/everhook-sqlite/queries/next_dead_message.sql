-- Dead tasks of a lane, of one message, if that is between two ids. Index: the primary key, over the few tasks of a message.
select subject, id
from task
where environment = ?1
    and +lane = ?2
    and subject = ?3
    and subject >= ?4
    and subject < ?5
    and state = 2
limit ?6;
