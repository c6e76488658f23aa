-- The conditions and the order of a list of attempts. Index: the primary key of message.
    and attempt.id > :above
    and attempt.id < :below
    and (:succeeded::boolean is null or (attempt.class = 0) = :succeeded)
    and attempt.status >= :status_from
    and attempt.status < :status_to
    and attempt.started_at < :before
    and attempt.started_at >= :after
    and (
        (:channel::text is null and :tag::text is null and :event_types::text[] is null)
        or exists (
            select 1
            from everhook.message
            where message.environment = :environment
                and message.application = :application
                and message.id = attempt.subject
                and (:channel::text is null or message.channels::jsonb ? :channel)
                and (:tag::text is null or message.tags::jsonb ? :tag)
                and (:event_types::text[] is null or message.event_type = any (:event_types))
        )
    )
order by attempt.id :order
limit :limit
