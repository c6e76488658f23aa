-- End tokens of an application before they expire; an earlier end of the same tokens stays. Index: the primary key.
insert into token_end (environment, application, subject, issued_until, ends_at, forget_at)
values (:environment, :application, :subject, :issued_until, :ends_at, :forget_at)
on conflict (environment, application, subject, issued_until) do update
set ends_at = min(token_end.ends_at, excluded.ends_at),
    forget_at = max(token_end.forget_at, excluded.forget_at);
