-- Changed quotas, which every node lists every few seconds. Additive: an older binary does not use the index.
create index resource_quota on everhook.resource (updated_at)
where kind = 13;
