-- Delete the row of a resource. Index: resource_name.
delete from everhook.resource
where environment = :environment
    and kind = :kind
    and parent = ''::bytea
    and name = :name
    and deleted_at is null
returning id;
