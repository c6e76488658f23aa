-- List the messages of all applications in a range of ids, without payloads. Indexes: resource_open, the primary keys.
-- A search reads the payload of each listed row, and returns the text in place of a payload that contains it. The first
-- rows of all are among the first rows of the applications with the first heads. So this asks a bounded number of
-- applications for one id each, and as many applications as rows for more.
-- Differs: SQLite has no lateral join; subqueries in the columns and in a condition take its place. `cross join` keeps
-- the order of the tables.
select {message: Message}, {application: Application}
from (
    select
        stored.environment, stored.application, stored.id, stored.event_type, stored.event_id, stored.channels,
        stored.tags, case when instr(stored.payload, :text) > 0 then :text end as payload, stored.created_at, stored.rest
    from (
        select busy.application, placed.id
        from (
            select
                asked.id as application,
                (
                    {include message_id; application = asked.id}
                    limit 1
                ) as head
            from (
                {include newest_application}
            ) as asked
            where head is not null
            order by head :order
            limit :limit
        ) as busy
            cross join message as placed on placed.environment = :environment
                and placed.application = busy.application
                and placed.id in (
                    {include message_id; application = busy.application}
                    limit :limit
                )
        order by placed.id :order
        limit :limit
    ) as listed
        cross join message as stored on stored.environment = :environment
            and stored.application = listed.application
            and stored.id = listed.id
) as message
    cross join resource as application on application.environment = message.environment
        and application.kind = 0
        and application.parent = x''
        and application.id = message.application
order by message.id :order;
