-- Find the last id that one search of an endpoint's attempts reads, like `scan_message`. Index: attempt_endpoint.
select id
from attempt
where environment = ?1
    and endpoint = ?2
    and id > ?3
    and id < ?4
order by id asc
limit 1 offset ?5;
