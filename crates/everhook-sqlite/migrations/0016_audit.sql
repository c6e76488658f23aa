-- The audit log. Additive: an older binary neither reads nor writes this table.
create table audit (
    environment integer not null,
    seq integer not null, -- from 1 without gaps
    at integer not null,
    operation blob not null,
    phase integer not null, -- begun (0), ended (1)
    actor text not null,
    key_id blob,
    principal text,
    action text not null,
    object text not null,
    reason text,
    status integer,
    request_hash blob,
    before_hash blob,
    after_hash blob,
    hash blob not null,
    primary key (environment, seq)
) strict, without rowid;

create unique index audit_operation on audit (environment, operation, phase);

create trigger audit_no_update before update on audit
begin
    select raise(abort, 'the audit log is append-only');
end;

create trigger audit_no_delete before delete on audit
begin
    select raise(abort, 'the audit log is append-only');
end;
