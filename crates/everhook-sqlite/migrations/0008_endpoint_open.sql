-- Endpoints that are not deleted, so that neither their count nor a fan-out reads the deleted ones.
create index endpoint_open on endpoint (environment, application, id)
where deleted_at is null;
