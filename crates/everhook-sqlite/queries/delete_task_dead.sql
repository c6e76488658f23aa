-- Delete the dead deliveries of a message to an endpoint, whose place a new delivery takes. Index: the primary key.
-- Differs: one message at a time.
delete from task
where environment = :environment
    and subject = :message
    and +lane = :lane
    and state = 2
returning order_key;
