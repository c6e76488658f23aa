-- Erase the stored reply of an attempt with its headers; clients of the API know the placeholder. Index: the primary
-- key, by its first columns.
update everhook.attempt
set reply = 'EXPUNGED',
    exchange = null
where kind = 0
    and environment = :environment
    and subject = :message
    and id = :id;
