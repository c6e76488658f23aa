-- List entries of the audit log in a range. Index: the primary key.
select {AuditEntry}
from everhook.audit
where environment = :environment
    and seq > :above
    and seq < :below
    and at >= :since
    and at < :until
    and (:actor is null or actor = :actor)
    and (:action is null or action = :action)
    and (:object is null or substr(object, 1, length(:object)) = :object)
order by seq :order
limit :limit;
