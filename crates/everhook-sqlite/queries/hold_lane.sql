-- Hold a lane back until a time; never shortens a hold. Index: the primary key.
-- No twin: PostgreSQL does this in `lower_lane_due` and `free_lane`, so that both take their locks once and in key
-- order.
update lane
set hold_until = :until,
    hold_kind = :kind
where environment = :environment
    and id = :lane
    and hold_until < :until;
