-- Delete ends that have become redundant: another end of the same subject covers their tokens, and comes no later or is
-- over. Repeated calls therefore leave one row. Index: the primary key.
-- Differs: many subjects at once.
delete from everhook.token_end
where environment = :environment
    and application = :application
    and subject = any (:subjects)
    and exists (
        select 1
        from everhook.token_end as other
        where other.environment = token_end.environment
            and other.application = token_end.application
            and other.subject = token_end.subject
            and other.issued_until > token_end.issued_until
            and other.ends_at <= greatest(token_end.ends_at, everhook.now_us())
    );
