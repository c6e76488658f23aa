-- Prune ends of tokens that have all expired. Index: token_end_forget.
delete from everhook.token_end
where ctid = any (array(
    select ctid
    from everhook.token_end
    where forget_at <= :now
        and forget_at < 9223372036854775807
    order by forget_at
    limit :limit
));
