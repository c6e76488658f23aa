-- Prune a message without open deliveries; the caller prunes its attempts. Indexes: the primary keys.
-- Differs: one row at a time, selected by `list_expired_message`.
delete from message
where environment = ?1
    and application = ?2
    and id = ?3
    and not exists (select 1 from task where task.environment = ?1 and task.subject = ?3);
