-- Write a new application.
insert into application (
    environment, id, uid, name, throttle_rate, metadata, created_at, updated_at, revision
)
values (:environment, :id, :uid, :name, :throttle_rate, :metadata, :now, :now, 1);
