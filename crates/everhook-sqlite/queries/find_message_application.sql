-- Find the application of a message. Indexes: resource_open, the primary key of message. Asks a bounded number of
-- applications, because no index finds a message without its application.
select application.id
from (
    {include newest_application}
) as application
where exists (
    select 1
    from message
    where message.environment = :environment
        and message.application = application.id
        and message.id = :message
)
limit 1;
