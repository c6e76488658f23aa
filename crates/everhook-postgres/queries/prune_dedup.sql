-- Prune expired keys in some pages of the table. No index: one on the expiry would make every insert more expensive.
-- Differs: page by page, so that each statement is bounded.
delete from everhook.dedup
where ctid >= :low::text::tid
    and ctid < :high::text::tid
    and expires_at <= everhook.now_us();
