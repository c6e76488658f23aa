-- The endpoint of this lane was deleted: its tasks come out with the next leases, to be cancelled. Index: the primary key.
update lane
set state = 2,
    next_due = 0
where environment = :environment
    and id = :id;
