-- End the hold of a lane at its concurrency limit, because one of its deliveries has ended. Index: the primary key.
-- Differs: one lane at a time, without locks, because there is one writer.
update lane
set hold_until = 0,
    hold_kind = 0
where environment = ?1
    and id = ?2
    and hold_kind = 2;
