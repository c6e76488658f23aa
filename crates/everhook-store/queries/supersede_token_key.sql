-- Mark every other signing key as superseded; their tokens stay valid. Keys are few.
update everhook.token_key
set superseded_at = :now
where superseded_at is null
    and id <> :id;
