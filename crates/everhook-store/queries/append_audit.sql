-- Append an entry to the audit log of an environment.
insert into everhook.audit (
    environment, seq, at, operation, phase, actor, key_id, principal, action, object, reason, status, request_hash,
    before_hash, after_hash, hash
)
values (
    :environment, :seq, :at, :operation, :phase, :actor, :key, :principal, :action, :object, :reason, :status, :request,
    :before, :after, :hash
);
