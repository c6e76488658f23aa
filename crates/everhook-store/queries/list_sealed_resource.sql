-- List resources after a position, also deleted ones, for a rotation. The caller knows the kinds with secrets. Index:
-- the primary key.
select environment, kind, parent, id, spec
from everhook.resource
where (environment, kind, parent, id) > (:environment, :kind, :parent, :id)
order by environment, kind, parent, id
limit :limit;
