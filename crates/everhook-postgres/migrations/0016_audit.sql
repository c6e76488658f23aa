-- The audit log. Additive: an older binary neither reads nor writes this table.
create table everhook.audit (
    seq bigint not null, -- from 1 without gaps
    at bigint not null,
    environment integer not null,
    phase smallint not null, -- begun (0), ended (1)
    status integer,
    operation bytea not null,
    actor text not null,
    key_id bytea,
    principal text,
    action text collate "C" not null,
    object text collate "C" not null,
    reason text,
    request_hash bytea,
    before_hash bytea,
    after_hash bytea,
    hash bytea not null,
    primary key (environment, seq)
);

create unique index audit_operation on everhook.audit (environment, operation, phase);

create function everhook.refuse_audit_change() returns trigger language plpgsql as $$
begin
    raise exception 'the audit log is append-only';
end
$$;

create trigger audit_append_only before update or delete on everhook.audit
for each row execute function everhook.refuse_audit_change();
