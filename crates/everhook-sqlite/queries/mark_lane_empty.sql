-- Set the time at which a lane is leased from again. Index: the primary key.
-- Differs: used for lanes that may have more tasks; an empty lane goes to `recompute_lane_due` at once.
update lane
set next_due = ?3
where environment = ?1
    and id = ?2
    and next_due <> ?3;
