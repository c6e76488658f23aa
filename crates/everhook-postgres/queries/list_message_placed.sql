-- List the messages of all applications in a range of ids, without payloads. Indexes: resource_open, the primary keys.
-- A search reads the payload of each listed row, and returns the text in place of a payload that contains it. The first
-- rows of all are among the first rows of the applications with the first heads. So this asks a bounded number of
-- applications for one id each, and as many applications as rows for more.
-- Differs: lateral subqueries with a limit stay look-ups, whatever the statistics say.
select {message: Message}, {application: Application}
from (
    select
        listed.environment, listed.application, listed.id, stored.event_type, stored.event_id, stored.channels,
        stored.tags, stored.payload, stored.created_at, stored.rest
    from (
        select busy.environment, busy.application, placed.id
        from (
            select asked.environment, asked.id as application, head.id as head
            from (
                {include newest_application}
            ) as asked
                cross join lateral (
                    {include message_id; application = asked.id}
                    limit 1
                ) as head
            order by head.id :order
            limit :limit
        ) as busy
            cross join lateral (
                {include message_id; application = busy.application}
                limit :limit
            ) as placed
        order by placed.id :order
        limit :limit
    ) as listed
        cross join lateral (
            select
                found.event_type, found.event_id, found.channels, found.tags, found.created_at, found.rest,
                case when :text::bytea is not null and position(:text in found.payload) > 0 then :text end as payload
            from everhook.message as found
            where found.environment = :environment
                and found.application = listed.application
                and found.id = listed.id
            limit 1
        ) as stored
) as message
    cross join lateral (
        select resource.*
        {include resource_by_id; environment = :environment; kind = 0; id = message.application}
        limit 1
    ) as application
order by message.id :order;
