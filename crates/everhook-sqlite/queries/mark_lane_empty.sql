-- Set the time at which a lane is leased from again. Index: the primary key.
-- Differs: used for lanes that may have more tasks; an empty lane goes to `recompute_lane_due` at once.
update lane
set next_due = :now
where environment = :environment
    and id = :lane
    and next_due <> :now;
