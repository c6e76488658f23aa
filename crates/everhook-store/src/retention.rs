//! Retention: old rows are pruned in slices.

use everhook_core::time::Timestamp;

/// A kind of rows that can be pruned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Prunable {
    /// Messages without open deliveries, with their attempts.
    Messages,
    /// Dead deliveries.
    DeadDeliveries,
    /// Payloads with a retention period of their own, after that period at any age. The messages stay.
    Payloads,
    /// Keys under which an object was accepted once, after their own expiry at any age.
    Keys,
    /// Answers of requests with an idempotency key, after their own expiry at any age.
    Answers,
    /// Entries of polled endpoints, by their age in whole days.
    Polled,
    /// Consumers of polled endpoints that were not used since.
    PollConsumers,
    /// Jobs that succeeded or were cancelled, with their attempts and output. Dead jobs stay.
    Jobs,
    /// Once-slots without a claim or reset since, with their suppressed calls.
    OnceSlots,
    /// Closed sessions that hold no task.
    Sessions,
    /// Batches without open or dead jobs.
    Batches,
    /// Runs of schedules, except the latest runs of each.
    Runs,
    /// Records that end application tokens, after their own expiry at any age, and signing keys superseded since.
    Tokens,
    /// Counts of traffic in spans shorter than an hour.
    TrafficMinutes,
    /// Counts of traffic in hours.
    TrafficHours,
}

impl Prunable {
    pub const ALL: [Prunable; 15] = [
        Prunable::Messages,
        Prunable::DeadDeliveries,
        Prunable::Payloads,
        Prunable::Keys,
        Prunable::Answers,
        Prunable::Polled,
        Prunable::PollConsumers,
        Prunable::Jobs,
        Prunable::OnceSlots,
        Prunable::Sessions,
        Prunable::Batches,
        Prunable::Runs,
        Prunable::Tokens,
        Prunable::TrafficMinutes,
        Prunable::TrafficHours,
    ];

    /// Returns the name in configurations, schedules and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Prunable::Messages => "messages",
            Prunable::DeadDeliveries => "dead-deliveries",
            Prunable::Payloads => "payloads",
            Prunable::Keys => "keys",
            Prunable::Answers => "answers",
            Prunable::Polled => "polled",
            Prunable::PollConsumers => "poll-consumers",
            Prunable::Jobs => "jobs",
            Prunable::OnceSlots => "once-slots",
            Prunable::Sessions => "sessions",
            Prunable::Batches => "batches",
            Prunable::Runs => "runs",
            Prunable::Tokens => "tokens",
            Prunable::TrafficMinutes => "traffic-minutes",
            Prunable::TrafficHours => "traffic-hours",
        }
    }
}

/// A request to prune. The age of a job or message counts from its end. Open tasks are never pruned, except by
/// `DeadDeliveries`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prune {
    pub what: Prunable,
    /// Only rows older than this.
    pub before: Timestamp,
    /// The approximate number of rows, oldest first.
    pub limit: usize,
}
