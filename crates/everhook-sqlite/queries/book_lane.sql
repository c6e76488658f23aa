-- Hold a lane until its limits allow more deliveries. Index: the primary key.
-- Differs: one lane at a time.
update lane
set hold_until = ?3,
    hold_kind = ?4
where environment = ?1
    and id = ?2;
