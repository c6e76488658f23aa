-- List batches in a range of ids. Index: the primary key.
select {BatchRecord}
from everhook.batch
where environment = :environment
    and id > :above
    and id < :below
order by id :order
limit :limit;
