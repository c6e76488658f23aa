-- Correct a row that was set aside. Index: the primary key.
update everhook.outbox_aside
{include outbox_correction};
