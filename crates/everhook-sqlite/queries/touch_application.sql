-- Tell caches that an endpoint of the application changed. Index: the primary key.
update application
set revision = revision + 1
where environment = ?1
    and id = ?2;
