-- Say when a lane is to be looked at again. Index: the primary key.
-- Differs: sets the time of a lane that may have more; one that is empty goes to `recompute_lane_due` at once.
update lane
set next_due = ?3
where environment = ?1
    and id = ?2
    and next_due <> ?3;
