-- Append a batch in one statement that commits by itself. The batch was planned from this node's caches. `agreed`
-- checks the plan: unless every version is current and every lane is free, no row is written. Returns the result of the
-- check, and the time. A key that another request holds must undo the whole statement, whose other inserts do not
-- depend on `taken`: `everhook.expect` does this.
-- No twin: SQLite reads and writes in one process, so a cached plan would save nothing.
with {include direct_claim},
{include direct_rows}
select agreed.yes, agreed.now,
    everhook.expect(
        not agreed.yes
        or cardinality(:wanted.environment) = (select count(*) from taken)
    ) as undone
from agreed;
