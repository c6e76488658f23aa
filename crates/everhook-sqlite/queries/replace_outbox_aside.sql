-- Correct a row that was set aside. Index: the primary key.
update everhook_outbox_aside
set environment = coalesce(?2, environment),
    application = coalesce(?3, application),
    event_type = coalesce(?4, event_type),
    payload = coalesce(?5, payload),
    event_id = coalesce(?6, event_id)
where id = ?1;
