-- Let nothing of a lane start before this; never shortens a hold. Index: the primary key.
-- No twin: PostgreSQL does it in `lower_lane_due`, so that the locks of both are taken once and in key order.
update lane
set hold_until = ?3
where environment = ?1
    and id = ?2
    and hold_until < ?3;
