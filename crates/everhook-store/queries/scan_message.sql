-- Find the last id that one search of messages reads; none if the list ends before. Index: the primary key.
{include message_id; application = :application}
limit 1 offset :skipped;
