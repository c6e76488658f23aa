-- End tokens of an application before they expire; an earlier end of the same tokens stays. Index: the primary key.
-- Differs: many rows at once, in key order, so that two calls with the same sessions do not deadlock.
insert into everhook.token_end (environment, application, subject, issued_until, ends_at, forget_at)
select :environment, :application, subject, issued_until, ends_at, forget_at
from unnest(:ends)
order by subject, issued_until
on conflict (environment, application, subject, issued_until) do update
set ends_at = least(token_end.ends_at, excluded.ends_at),
    forget_at = greatest(token_end.forget_at, excluded.forget_at);
