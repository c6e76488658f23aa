-- Find the application of a message. Indexes: resource_open, the primary key of message. Asks a bounded number of
-- applications, because no index finds a message without its application.
select application.id
from (
    {include newest_application}
) as application
    cross join lateral (
        -- One look-up for each application; a join could read the messages of all of them.
        select 1
        from everhook.message
        where message.environment = :environment
            and message.application = application.id
            and message.id = :message
        limit 1
    ) as message
limit 1;
