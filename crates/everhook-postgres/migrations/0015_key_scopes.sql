-- Names, scopes, expiry and last use of API keys. Additive: the keys of an older binary have all rights in their
-- environment, as before. An older binary grants every key all rights and ignores its expiry: create restricted keys when
-- all replicas are upgraded.
alter table everhook.api_key
    add column name text not null default '',
    add column application bytea, -- null: every application
    add column scope smallint not null default 1, -- admin (0), operate (1), write (2), read (3)
    add column rights smallint not null default 3, -- bits: reveal secrets (1), change URLs (2)
    add column expires_at bigint,
    add column last_used_at bigint;
update everhook.api_key set scope = 0 where environment is null;
