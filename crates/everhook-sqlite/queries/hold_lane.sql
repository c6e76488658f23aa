-- Hold a lane back until a time; never shortens a hold. Index: the primary key.
-- No twin: PostgreSQL does this in `lower_lane_due` and `free_lane`, so that both take their locks once and in key order.
update lane
set hold_until = ?3,
    hold_kind = ?4
where environment = ?1
    and id = ?2
    and hold_until < ?3;
