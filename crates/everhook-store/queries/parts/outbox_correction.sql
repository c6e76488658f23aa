-- Corrects a row that was set aside. Index: the primary key.
set environment = coalesce(:environment, environment),
    application = coalesce(:application, application),
    event_type = coalesce(:event_type, event_type),
    payload = coalesce(:payload, payload),
    event_id = coalesce(:event_id, event_id)
where id = :id
