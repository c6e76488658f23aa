-- End the hold of a lane if it is of one of these kinds: a delivery has ended, or a command of an operator frees an
-- ordered lane. Index: the primary key.
-- Differs: one lane at a time, without locks, because there is one writer. Retries hold ordered lanes with `hold_lane`.
update lane
set hold_until = 0,
    hold_kind = 0
where environment = :environment
    and id = :lane
    and hold_kind between :first_kind and :last_kind;
