-- Find an attempt that was logged earlier: a repeated settlement finds its own row. Index: the primary key.
select 1
from attempt
where environment = :environment
    and subject = :subject
    and task = :task
    and epoch = :epoch
    and id = :attempt;
