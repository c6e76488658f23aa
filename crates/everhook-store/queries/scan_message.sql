-- Find the last id that one search of messages reads; none if the list ends before. Index: the primary key.
{include message_id}
limit 1 offset :skipped;
