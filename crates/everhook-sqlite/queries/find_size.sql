-- Find the bytes in use, the first message without an open delivery, and the last message. Indexes: the row ids, the
-- primary key of task.
-- Differs: the whole file, without its free pages.
select
    (select (page_count - freelist_count) * page_size from pragma_page_count, pragma_freelist_count, pragma_page_size),
    (
        select id
        from message
        where not exists (select 1 from task where task.environment = message.environment and task.subject = message.id)
        order by rowid
        limit 1
    ),
    (select id from message order by rowid desc limit 1);
