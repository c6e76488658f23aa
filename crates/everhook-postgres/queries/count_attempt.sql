-- Count the attempts of messages that were accepted in a window. Indexes: the primary keys. The order of the key keeps
-- the planner from the index of the endpoint.
-- Differs: many messages at once.
select coalesce(sum(tried.attempts), 0)::bigint
from unnest(:wanted)
    join everhook.message on message.environment = any (array[wanted.environment])
        and message.application = wanted.application
        and message.id = wanted.id
    cross join lateral (
        select count(*) as attempts
        from (
            select attempt.task
            from everhook.attempt
            where attempt.kind = 0
                and attempt.environment = message.environment
                and attempt.subject = message.id
            order by attempt.task, attempt.epoch
            offset 0
        ) as attempt
    ) as tried
where message.created_at >= :since
    and message.created_at < :until;
