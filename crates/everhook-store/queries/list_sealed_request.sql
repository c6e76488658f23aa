-- List the stored answers of requests after a position, for a rotation. Index: the primary key.
select environment, hash, answer
from everhook.request
where answer is not null
    and (environment, hash) > (:environment, :hash)
order by environment, hash
limit :limit;
