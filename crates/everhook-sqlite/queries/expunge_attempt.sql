-- Erase the stored reply of an attempt with its headers; clients of the API know the placeholder. Index: the primary
-- key, over the few attempts of a message.
update attempt
set reply = cast('EXPUNGED' as blob),
    exchange = null
where environment = :environment
    and subject = :message
    and id = :id;
