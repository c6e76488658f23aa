-- Find an attempt that was logged earlier: a repeated settlement finds its own row. Index: the primary key.
select 1
from attempt
where environment = ?1
    and subject = ?2
    and task = ?3
    and epoch = ?4
    and id = ?5;
