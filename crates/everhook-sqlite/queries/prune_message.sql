-- Forget a message that has no open delivery; the caller forgets its attempts. Indexes: the primary keys.
-- Differs: one row at a time, chosen by `list_expired_message`.
delete from message
where environment = ?1
    and application = ?2
    and id = ?3
    and not exists (select 1 from task where task.environment = ?1 and task.subject = ?3);
