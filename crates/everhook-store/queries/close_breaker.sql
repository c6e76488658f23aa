-- Close the circuit breakers whose settings have changed: of one lane, of an application, or of an environment. Index:
-- the primary key. Runs only when a user changes a breaker.
update everhook.lane
set breaker = 0,
    hold_until = case hold_kind when 6 then 0 else hold_until end,
    hold_kind = case hold_kind when 6 then 0 else hold_kind end
where environment = :environment
    and id >= :low
    and id <= :high
    and breaker > 0
    and (:application::bytea is null or application = :application);
