-- End the holds of rate limits that have changed: of one lane, of an application, or of an environment. The next lease
-- applies the new limit. Index: the primary key. Runs only when a user changes a rate.
update everhook.lane
set hold_until = 0,
    hold_kind = 0
where environment = :environment
    and id >= :low
    and id <= :high
    and hold_kind = 1
    and (:application::bytea is null or application = :application);
