-- Close the lane of a deleted endpoint: the next leases take its tasks, to be cancelled. Index: the primary key.
update lane
set state = 2,
    next_due = 0
where environment = :environment
    and id = :id;
