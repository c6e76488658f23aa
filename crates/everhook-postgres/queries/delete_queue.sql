-- Forget how a queue is configured. Index: the primary key.
delete from everhook.queue
where environment = :environment
    and name = :name;
