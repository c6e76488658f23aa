-- List the ids of an application's messages in a range. Index: the primary key.
{include message_id; application = :application}
limit :limit;
