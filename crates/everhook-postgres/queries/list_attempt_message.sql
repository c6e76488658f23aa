-- List the attempts of a message in a range of ids, to all endpoints or to one, filtered. Index: the primary key.
-- Differs: `jsonb` tests the members of a JSON array.
{include attempt_found}
    and attempt.subject = :of
    and (:endpoint::bytea is null or attempt.endpoint = :endpoint)
    {include attempt_page};
