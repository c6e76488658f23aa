-- Store a key that signs tokens; the first key only if no other one signs. Repeating it changes nothing. Index: the
-- primary key. Two nodes may store a first key at the same time; both keys then verify.
insert into everhook.token_key (id, secret, created_at)
select :id, :secret, :now
where not :is_first
    or not exists (
        select 1
        from everhook.token_key
        where superseded_at is null
    )
on conflict (id) do nothing;
