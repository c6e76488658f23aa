-- Delete the row of a resource. Index: resource_name.
delete from resource
where environment = :environment
    and kind = :kind
    and parent = x''
    and name = :name
    and deleted_at is null
returning id;
