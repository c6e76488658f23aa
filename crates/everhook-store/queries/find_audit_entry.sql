-- Find the entry of one phase of an operation, to repeat a write without effect. Index: audit_operation.
select seq
from everhook.audit
where environment = :environment
    and operation = :operation
    and phase = :phase;
