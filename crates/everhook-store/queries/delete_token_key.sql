-- Delete every other signing key; their tokens end. Keys are few.
delete from everhook.token_key
where id <> :id;
