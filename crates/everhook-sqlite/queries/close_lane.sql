-- Close the lane of a deleted endpoint and make it ready, so that a lease empties it. Index: the primary key.
update lane
set state = 2,
    next_due = 0
where environment = ?1
    and id = ?2;
