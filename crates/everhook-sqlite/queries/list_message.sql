-- List an application's messages in a range of ids, filtered. Index: the primary key.
-- Differs: `json_each` tests the members of a JSON array.
select id, event_type, event_id, channels, tags, payload, created_at, rest
from message
where environment = ?1
    and application = ?2
    and id > ?3
    and id < ?4
    and created_at < ?5
    and created_at >= ?6
    and (?7 is null or exists (select 1 from json_each(message.channels) where json_each.value = ?7))
    and (?8 is null or exists (select 1 from json_each(message.tags) where json_each.value = ?8))
    and (?9 is null or event_type in (select json_each.value from json_each(?9)))
    and (?10 is null or instr(payload, ?10) > 0)
order by id asc
limit ?11;
