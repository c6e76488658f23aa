-- Forget keys that have expired, of some pages of the table: there is no index on when they do, which every key would pay for.
-- Differs: page by page, so that each statement is bounded.
delete from everhook.dedup
where ctid >= :low::text::tid
    and ctid < :high::text::tid
    and expires_at <= everhook.now_us();
