-- Hold a lane until its rate limit allows more deliveries. Index: the primary key.
-- Differs: one lane at a time.
update lane
set hold_until = ?3,
    hold_kind = 1
where environment = ?1
    and id = ?2;
