-- End the holds of limits that have changed: of one lane, of an application, or of an environment. The next lease
-- applies the new limits. Index: the primary key. Runs only when a user changes a limit.
update everhook.lane
set hold_until = 0,
    hold_kind = 0
where environment = :environment
    and id >= :low
    and id <= :high
    and (hold_kind between 1 and 3 or (:order and hold_kind between 4 and 5))
    and (:application::bytea is null or application = :application);
