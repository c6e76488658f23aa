-- The conditions and the order of a list of attempts. Index: the primary key of message.
    and {id} > :above
    and {id} < :below
    and (:succeeded is null or (attempt.class = 0) = :succeeded)
    and attempt.status >= :status_from
    and attempt.status < :status_to
    and attempt.started_at < :before
    and attempt.started_at >= :after
    and (
        (:channel is null and :tag is null and :event_types is null)
        or exists (
            select 1
            from message
            where message.environment = :environment
                and message.application = :application
                and message.id = attempt.subject
                and (
                    :channel is null
                    or exists (select 1 from json_each(message.channels) where json_each.value = :channel)
                )
                and (:tag is null or exists (select 1 from json_each(message.tags) where json_each.value = :tag))
                and (
                    :event_types is null
                    or message.event_type in (select json_each.value from json_each(:event_types))
                )
        )
    )
order by {id} :order
limit :limit
