-- The lanes of a queue that are ready. Index: lane_ready.
lane.feed = :feed
    and lane.environment = :environment
    and lane.ready_at < 9223372036854775807
