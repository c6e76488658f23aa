-- Change the circuit breaker of a lane, and hold the lane if the breaker opens (6), unless the lane holds for longer. A
-- breaker that another attempt has changed stays as it is. Index: the primary key.
-- Differs: one lane at a time.
update lane
set breaker = :next,
    hold_until = max(hold_until, :open_until),
    hold_kind = case when hold_until < :open_until then 6 else hold_kind end
where environment = :environment
    and id = :lane
    and breaker = :seen;
