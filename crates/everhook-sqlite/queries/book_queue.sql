-- Keep until when the rate of a queue is used up. Index: the primary key.
update queue
set booked_until = ?3
where environment = ?1
    and name = ?2;
