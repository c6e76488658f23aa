-- Put back tasks that this transaction leased although their kind was not asked for. Index: the primary key.
-- No twin: SQLite reads the record before it leases.
update everhook.task
set state = 0,
    owner = null,
    limit_group = null,
    deadline = null
from unnest(:foreign_kind)
where task.environment = any (array[foreign_kind.environment])
    and task.subject = foreign_kind.subject
    and task.id = foreign_kind.id;
