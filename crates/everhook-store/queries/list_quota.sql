-- List the quotas of all environments that were changed since a time, in the order of their changes. Index:
-- resource_quota.
select {quota: ResourceRow}
from everhook.resource as quota
where quota.kind = 13
    and quota.updated_at >= :since
order by quota.updated_at
limit :limit;
