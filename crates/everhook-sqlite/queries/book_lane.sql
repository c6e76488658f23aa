-- Hold a lane until its limits allow more deliveries. Index: the primary key.
-- Differs: one lane at a time.
update lane
set hold_until = :until,
    hold_kind = :kind
where environment = :environment
    and id = :lane;
