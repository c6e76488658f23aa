-- Correct a row that was set aside. Index: the primary key.
update everhook_outbox_aside
{include outbox_correction};
