-- Make dead tasks of a lane, or of one message in it, pending again, with fresh tries. Indexes: task_dead, or the
-- primary key over the few tasks of the message.
-- Only tasks of ordered lanes keep their limit group while they are dead. They also keep their due time, which is
-- their place. Tasks with a key wait until `promote_task` makes them due.
-- Differs: two ways to select, because SQLite plans a statement before it knows whether a message is given.
update task
set state = 0,
    due_at = case
        when order_key is not null then 9223372036854775807
        when limit_group is null then :now
        else due_at
    end,
    tries = 0,
    crashes = 0,
    cancel = 0
where (environment, subject, id) in (
    select environment, subject, id
    from (
        select environment, subject, id
        from task
        where :message is null
            and environment = :environment
            and lane = :lane
            and +subject >= :since
            and +subject < :until
            and state = 2
        union all
        select environment, subject, id
        from task
        where environment = :environment
            and subject = :message
            and +lane = :lane
            and +subject >= :since
            and +subject < :until
            and state = 2
    )
    limit :limit
)
returning order_key;
