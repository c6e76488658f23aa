-- Names, scopes, expiry and last use of API keys. Additive: the keys of an older binary have all rights in their
-- environment, as before. An older binary grants every key all rights and ignores its expiry: create restricted keys when
-- all replicas are upgraded.
alter table api_key add column name text not null default '';
alter table api_key add column application blob; -- null: every application
alter table api_key add column scope integer not null default 1; -- admin (0), operate (1), write (2), read (3)
alter table api_key add column rights integer not null default 3; -- bits: reveal secrets (1), change URLs (2)
alter table api_key add column expires_at integer;
alter table api_key add column last_used_at integer;
update api_key set scope = 0 where environment is null;
