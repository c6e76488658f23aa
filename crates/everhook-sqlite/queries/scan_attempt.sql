-- Find the last id that one search of an endpoint's attempts reads, like `scan_message`. Index: attempt_endpoint.
select id
from attempt
where environment = :environment
    and endpoint = :endpoint
    and id > :above
    and id < :below
order by id :order
limit 1 offset :skipped;
