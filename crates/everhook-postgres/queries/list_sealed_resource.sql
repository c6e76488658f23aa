-- List the secrets of resources after a position, also of deleted ones, for a rotation. Index: the primary key.
select environment, kind, parent, id, spec
from everhook.resource
where kind in (1, 3, 12) -- endpoints, queues and chat apps
    and (environment, kind, parent, id) > (:environment, :kind, :parent, :id)
order by environment, kind, parent, id
limit :limit;
