-- Insert the messages and tasks of a batch whose plan agreed.
-- No twin: SQLite reads and writes in one process, so a cached plan would save nothing.
messages as (
    insert into everhook.message
        (environment, application, id, event_type, event_id, channels, tags, payload, created_at)
    select environment, application, id, event_type, event_id, channels, tags, payload, agreed.now
    from agreed
        cross join unnest(:fresh)
    where agreed.yes
),
tasks as (
    insert into everhook.task
        (environment, subject, id, lane, kind, "trigger", priority, due_at, tries, crashes, epoch, owner, cancel, state)
    select environment, subject, id, lane, kind, "trigger", priority, agreed.now, 0, 0, epoch, owner, false, state
    from agreed
        cross join unnest(:begun)
    where agreed.yes
)
