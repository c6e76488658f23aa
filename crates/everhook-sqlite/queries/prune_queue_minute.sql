-- Forget the minutes of a queue that nobody is told of any more. Index: the primary key.
delete from queue_minute
where environment = ?1
    and queue = ?2
    and minute < ?3;
