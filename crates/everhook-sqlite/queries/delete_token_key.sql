-- Delete every other signing key; their tokens end. Keys are few.
delete from token_key
where id <> :id;
