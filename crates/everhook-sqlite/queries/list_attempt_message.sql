-- List the attempts of a message in a range of ids, filtered. Index: the primary key; the few attempts of a message are
-- sorted.
-- Differs: `json_each` tests the members of a JSON array.
{include attempt_found}
    and attempt.subject = :of
    and (:endpoint is null or attempt.endpoint = :endpoint)
    {include attempt_page; id = +attempt.id};
