-- Add an endpoint, unless its uid is taken.
insert into everhook.endpoint (
    environment, id, application, uid, url, description, state, event_types, channels, headers, throttle_rate, metadata, version, keys,
    created_at, updated_at, revision
)
select :environment, :id, :application, :uid, :url, :description, :state, :event_types, :channels, :headers, :throttle_rate, :metadata, :version, :keys, clock.now, clock.now, 1
from (select everhook.now_us() as now) as clock
on conflict do nothing
returning {Endpoint};
