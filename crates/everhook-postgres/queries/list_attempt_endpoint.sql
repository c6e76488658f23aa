-- List attempts to one endpoint in a range of ids, filtered. Index: attempt_endpoint.
-- Differs: `jsonb` tests the members of a JSON array.
{include attempt_found}
    and attempt.endpoint = :of
    {include attempt_page};
