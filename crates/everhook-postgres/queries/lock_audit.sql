-- Lock the audit log of an environment, so that entries are chained one after the other, and read the clock under the
-- lock. Index: the primary key of environment.
-- No twin: SQLite has one writer.
select everhook.now_us()
from everhook.environment
where id = :environment
for update;
