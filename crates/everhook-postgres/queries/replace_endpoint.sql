-- Change an endpoint that nobody changed meanwhile. Index: the primary key.
update everhook.endpoint
set uid = :uid,
    url = :url,
    description = :description,
    state = :state,
    event_types = :event_types,
    channels = :channels,
    headers = :headers,
    throttle_rate = :throttle_rate,
    metadata = :metadata,
    version = :version,
    keys = :keys,
    updated_at = everhook.now_us(),
    revision = revision + 1
where environment = :environment
    and application = :application
    and id = :id
    and revision = :revision
    and deleted_at is null
returning {Endpoint};
