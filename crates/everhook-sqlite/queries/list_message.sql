-- List an application's messages in a range of ids, filtered. Index: the primary key.
-- Differs: `json_each` tests the members of a JSON array.
select {Message}
{include message_window}
    and (:channel is null or exists (select 1 from json_each(message.channels) where json_each.value = :channel))
    and (:tag is null or exists (select 1 from json_each(message.tags) where json_each.value = :tag))
    and (:event_types is null or event_type in (select json_each.value from json_each(:event_types)))
    and (:text is null or instr(payload, :text) > 0)
order by id :order
limit :limit;
