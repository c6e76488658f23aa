-- Find the application of a message. Indexes: resource_open, the primary key of message. Asks a bounded number of
-- applications, because no index finds a message without its application.
select application.id
from (
    select resource.id
    from resource
    where resource.environment = :environment
        and resource.kind = 0
        and resource.parent = x''
        and resource.deleted_at is null
    order by resource.id desc
    limit :applications_max
) as application
where exists (
    select 1
    from message
    where message.environment = :environment
        and message.application = application.id
        and message.id = :message
)
limit 1;
