-- Prune an end of tokens that have all expired. Index: the primary key.
-- Differs: one row at a time, selected by `list_expired_token_end`.
delete from token_end
where environment = ?1
    and application = ?2
    and subject = ?3
    and issued_until = ?4
    and forget_at <= ?5;
