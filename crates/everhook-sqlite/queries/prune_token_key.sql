-- Prune signing keys that were superseded so long ago that their last tokens have expired. Keys are few.
delete from token_key
where superseded_at < :before;
