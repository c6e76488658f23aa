-- Prune signing keys that were superseded so long ago that their last tokens have expired. Keys are few.
delete from everhook.token_key
where superseded_at < :before;
