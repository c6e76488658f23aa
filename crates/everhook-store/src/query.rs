//! Reads: each is a value with its arguments and the type of its answer.
//!
//! [`queries!`] declares them. A store answers all reads in one function, which sets deadlines and shares in one place.
//! [`Reads::read`](crate::store::Reads::read) returns the answer with its own type. The cost of a `search` depends on
//! its arguments, so it runs under the deadline of searches and within the share of its environment. A `lookup` does
//! not.

use std::time::Duration;

use everhook_core::alert::Alert;
use everhook_core::api_key::{ApiKeyHash, KeyRecord};
use everhook_core::application::{Application, Environment, EnvironmentPolicy};
use everhook_core::audit::AuditEntry;
use everhook_core::chat_app::ChatApps;
use everhook_core::delivery::DeliveryKey;
use everhook_core::egress::EgressPause;
use everhook_core::endpoint::{Endpoint, EndpointKey};
use everhook_core::event_type::EventType;
use everhook_core::id::{
    ApplicationId, AttemptId, BatchId, EndpointId, EnvironmentId, Id, IntegrationId, JobId, MessageId, ScheduleId,
    SessionId,
};
use everhook_core::integration::Integration;
use everhook_core::message::Message;
use everhook_core::name::Name;
use everhook_core::portal::PortalSettings;
use everhook_core::queue::Queue;
use everhook_core::quota::Quota;
use everhook_core::scope::{AppScope, Scope};
use everhook_core::task::Task;
use everhook_core::time::Timestamp;
use everhook_core::token::{TokenKey, TokenMark};
use everhook_core::traffic::{Span, TrafficRow};

use crate::audit::AuditFilter;
use crate::background::{AttemptCount, BackgroundFilter};
use crate::backlog::{Backlog, LaneCounts, OpenCounts};
use crate::batch::BatchRecord;
use crate::catalog::{ArchivedTypes, Having, Locator, Slice};
use crate::delivery::{BreakerRecord, DeliveryFilter, DeliveryRecord, EndpointCounts, Period};
use crate::directory::{PlacedEndpoint, PlacedMessage};
use crate::failure::FailureGroups;
use crate::history::{Attempt, AttemptFilter, Destination, MessageFilter};
use crate::job::{JobAttempt, JobFilter, JobRecord};
use crate::lease::SessionRecord;
use crate::once::OnceRecord;
use crate::piece::Piece;
use crate::queue::QueueStats;
use crate::quota::{MessageCount, MessagePlace};
use crate::schedule::{Run, ScheduleRecord};
use crate::uids::Found;
use crate::worker::WorkerRecord;

/// A read with the type of its answer.
pub trait Read: Into<Query> + Send {
    type Answer: Send;

    /// Unwraps the answer to this read; none if it is the answer to another read.
    fn answer(answer: Answer) -> Option<Self::Answer>;
}

macro_rules! queries {
    ($($(#[$doc:meta])* $kind:ident $name:ident { $($field:ident: $type:ty),* } -> $answer:ty;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug)]
            pub struct $name {
                $(pub $field: $type,)*
            }

            impl From<$name> for Query {
                fn from(query: $name) -> Query {
                    Query::$name(query)
                }
            }

            impl Read for $name {
                type Answer = $answer;

                fn answer(answer: Answer) -> Option<$answer> {
                    match answer {
                        Answer::$name(answer) => Some(answer),
                        _ => None,
                    }
                }
            }

            queries!(@share $kind $name);
            queries!(@environment $name $($field)*);
        )*

        #[derive(Clone, Debug)]
        pub enum Query {
            $($name($name),)*
        }

        /// The answer to any read, under the name of its query.
        #[derive(Debug)]
        #[allow(clippy::large_enum_variant, reason = "an answer is taken apart where it arrives")]
        pub enum Answer {
            $($name($answer),)*
        }

        /// The names of the reads.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum QueryName {
            $($name,)*
        }

        impl QueryName {
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(QueryName::$name => stringify!($name),)*
                }
            }
        }

        impl Query {
            pub const fn name(&self) -> QueryName {
                match self {
                    $(Query::$name(_) => QueryName::$name,)*
                }
            }

            /// The environment that the read belongs to; none if it is about all of them.
            pub fn environment(&self) -> Option<EnvironmentId> {
                match self {
                    $(Query::$name(query) => query.environment(),)*
                }
            }

            /// The environment whose share of the connections this read uses, under the deadline of searches; none for
            /// a lookup.
            pub fn share(&self) -> Option<EnvironmentId> {
                match self {
                    $(Query::$name(query) => query.share(),)*
                }
            }
        }
    };
    (@environment $name:ident scope $($field:ident)*) => {
        impl $name {
            fn environment(&self) -> Option<EnvironmentId> {
                Some(self.scope.environment)
            }
        }
    };
    (@environment $name:ident $($field:ident)*) => {
        impl $name {
            fn environment(&self) -> Option<EnvironmentId> {
                None
            }
        }
    };
    (@share search $name:ident) => {
        impl $name {
            fn share(&self) -> Option<EnvironmentId> {
                Some(self.scope.environment)
            }
        }
    };
    (@share lookup $name:ident) => {
        impl $name {
            fn share(&self) -> Option<EnvironmentId> {
                None
            }
        }
    };
}

/// Matches on a query: each arm computes the answer of the query that it names. The match is exhaustive, or ends with
/// `_`.
#[macro_export]
macro_rules! answers {
    ($query:expr; $($name:ident($asked:pat) => $answer:expr,)* $(_ => $other:expr,)?) => {
        match $query {
            $($crate::query::Query::$name($asked) => $crate::query::Answer::$name($answer),)*
            $(_ => $other,)?
        }
    };
}

queries! {
    /// Every environment, oldest first.
    lookup Environments {} -> Vec<Environment>;
    lookup FindEnvironmentPolicy { scope: Scope } -> Option<EnvironmentPolicy>;
    /// The delivery policies of all environments that have one.
    lookup EnvironmentPolicies {} -> Vec<(EnvironmentId, EnvironmentPolicy)>;
    /// Lists the paused applications and queues of all environments, by the ids of their lane groups.
    lookup PausedGroups {} -> Vec<(EnvironmentId, Id)>;
    /// The look of the portals of an environment; none until it is set.
    lookup FindPortalSettings { scope: Scope } -> Option<PortalSettings>;
    /// The chat apps of an environment; none until there is one.
    lookup FindChatApps { scope: Scope } -> Option<ChatApps>;
    /// The quota of an environment, or of an application; none until it is set.
    lookup FindQuota { scope: Scope, application: Option<ApplicationId> } -> Option<Quota>;
    /// The quotas of all environments that were changed at or after a time, in the order of their changes; at most
    /// `QUOTAS_READ_MAX`.
    lookup Quotas { since: Timestamp } -> Vec<(EnvironmentId, Quota)>;
    /// The number of endpoints of an application, or of an environment without its operational endpoints, up to
    /// `limit`.
    search CountEndpoints { scope: Scope, application: Option<ApplicationId>, limit: usize } -> usize;
    /// The number of stored messages of an application or an environment: the next `limit` ones after a place.
    search CountMessages {
        scope: Scope, application: Option<ApplicationId>, after: Option<MessagePlace>, limit: usize
    } -> MessageCount;
    lookup FindAlert { scope: Scope, name: Name } -> Option<Alert>;
    /// Alert rules by name.
    search Alerts { scope: Scope, slice: Slice<Name> } -> Piece<Alert, Name>;
    /// The alert rules of all environments; at most `ALERTS_READ_MAX`.
    lookup AllAlerts {} -> Vec<(EnvironmentId, Alert)>;
    /// Every API key, even a revoked one, oldest first.
    lookup Keys {} -> Vec<KeyRecord>;
    /// An API key; none if it is unknown or revoked. The caller checks its expiry.
    lookup FindKey { hash: ApiKeyHash } -> Option<KeyRecord>;
    /// Entries of the audit log, by position.
    search Audit { scope: Scope, filter: AuditFilter, slice: Slice<i64> } -> Vec<AuditEntry>;
    /// The keys that sign application tokens, newest first.
    lookup TokenKeys {} -> Vec<TokenKey>;
    /// The time at which an application token ends before it expires; none if no record ends it.
    lookup FindTokenEnd { scope: AppScope, mark: TokenMark } -> Option<Timestamp>;

    lookup FindApplication { scope: Scope, locator: Locator<ApplicationId> } -> Option<Application>;
    /// The application that has a uid, with the version of its lane group.
    lookup ResolveApplication { scope: Scope, uid: Name } -> Option<Found>;
    /// Applications by id.
    search Applications { scope: Scope, having: Having, slice: Slice<ApplicationId> } -> Vec<Application>;
    lookup FindEndpoint { scope: AppScope, locator: Locator<EndpointId> } -> Option<Endpoint>;
    /// The endpoints of an application, by id.
    search Endpoints { scope: AppScope, slice: Slice<EndpointId> } -> Vec<Endpoint>;
    /// Endpoints with their applications, by their ids. Unknown and deleted ones are left out.
    search FindEndpoints { scope: Scope, ids: Vec<EndpointId> } -> Vec<PlacedEndpoint>;
    /// The endpoints of all applications, by application and id.
    search AllEndpoints { scope: Scope, slice: Slice<EndpointKey> } -> Vec<PlacedEndpoint>;
    /// Whether an enabled endpoint of the application wants such a message. Reads all endpoints of the application.
    search HasSubscriber { scope: AppScope, event_type: Name, channels: Vec<Name> } -> bool;
    lookup FindIntegration { scope: AppScope, id: IntegrationId } -> Option<Integration>;
    /// The integrations of an application, by id.
    search Integrations { scope: AppScope, slice: Slice<IntegrationId> } -> Vec<Integration>;
    /// An event type, archived or not.
    lookup FindEventType { scope: Scope, name: Name } -> Option<EventType>;
    /// Event types by name.
    search EventTypes { scope: Scope, archived: ArchivedTypes, slice: Slice<Name> } -> Piece<EventType, Name>;
    /// Returns the names that an endpoint cannot subscribe to: unknown or archived event types.
    lookup UnknownEventTypes { scope: Scope, names: Vec<Name> } -> Vec<Name>;

    /// A message by id or event id.
    lookup FindMessage { scope: AppScope, locator: Locator<MessageId> } -> Option<Message>;
    /// The application of a message. Asks at most `LOOKUP_APPLICATIONS_MAX` applications.
    search FindMessageApplication { scope: Scope, message: MessageId } -> Option<ApplicationId>;
    /// The messages of all applications by id, without payloads. Asks at most `LOOKUP_APPLICATIONS_MAX` applications.
    search AllMessages { scope: Scope, filter: MessageFilter } -> Piece<PlacedMessage, MessageId>;
    /// The messages of an application, by id.
    search Messages { scope: AppScope, filter: MessageFilter } -> Piece<Message, MessageId>;
    /// One attempt of a message.
    lookup FindAttempt { scope: Scope, message: MessageId, id: AttemptId } -> Option<Attempt>;
    /// Attempts by id. The caller has checked that the message or endpoint belongs to the application.
    search Attempts { scope: AppScope, filter: AttemptFilter } -> Piece<Attempt, AttemptId>;
    /// The state of a message at each endpoint that it went to, by endpoint id. One statement reads tasks and attempts,
    /// so that a delivery that is being settled appears in one state, not in both or none.
    search Destinations { scope: AppScope, message: MessageId } -> Vec<Destination>;

    /// Deliveries by message and endpoint, newest life of each. One statement reads the tasks and attempts of a
    /// message, as for `Destinations`. Visits a bounded number of messages.
    search Deliveries { scope: Scope, filter: DeliveryFilter } -> Piece<DeliveryRecord, DeliveryKey>;

    /// The failure groups of the next endpoints with dead deliveries. Visits `FAILURE_ENDPOINTS_MAX` lanes.
    search ListFailures { scope: Scope, after: Option<EndpointId> } -> FailureGroups;
    /// The failure groups of one endpoint.
    search FindFailures { scope: Scope, endpoint: EndpointId } -> FailureGroups;
    /// The circuit breaker of an endpoint; none if the endpoint does not exist.
    lookup FindBreaker { scope: Scope, endpoint: EndpointId } -> Option<BreakerRecord>;
    /// The attempts to an endpoint in a period, by result. Reads at most `STATS_ROWS_MAX` attempts, newest first.
    search CountEndpoint { scope: Scope, endpoint: EndpointId, period: Period } -> EndpointCounts;

    lookup FindOnce { scope: AppScope, key: Name } -> Option<OnceRecord>;
    /// The once-slots of an application, by key.
    search OnceSlots { scope: AppScope, slice: Slice<Name> } -> Vec<OnceRecord>;

    /// A job with its state. One statement reads task and attempt, so that a job that is being settled appears in one
    /// state, not in both or none.
    lookup FindJob { scope: Scope, id: JobId } -> Option<JobRecord>;
    /// Jobs by id, without payloads.
    search Jobs { scope: Scope, filter: JobFilter } -> Piece<JobRecord, JobId>;
    /// The background tasks of an environment by id: jobs of the server's own environment, without payloads. Results
    /// larger than `RESULT_BYTES_MAX` are left out.
    search BackgroundTasks { scope: Scope, filter: BackgroundFilter } -> Piece<JobRecord, JobId>;
    /// The number of attempts of the next `limit` messages that were accepted in a window, after a message.
    search CountAttempts {
        scope: AppScope, after: Option<MessageId>, since: Timestamp, until: Timestamp, limit: usize
    } -> AttemptCount;
    /// The latest attempts of a job, newest first.
    search JobAttempts { scope: Scope, id: JobId, limit: usize } -> Vec<JobAttempt>;
    /// The tasks of the jobs that a session holds, with their cancel flags.
    lookup HeldJobs { session: SessionId } -> Vec<Task>;

    /// A queue that is configured, or has or had a job.
    lookup FindQueue { scope: Scope, name: Name } -> Option<Queue>;
    /// Queues by name: configured ones, and those that have or had a job.
    search Queues { scope: Scope, slice: Slice<Name> } -> Vec<Queue>;
    /// The open queues with a target, of all environments.
    lookup PushQueues {} -> Vec<(EnvironmentId, Name)>;
    /// The number of jobs in a queue, by state.
    search CountQueue { scope: Scope, name: Name } -> QueueStats;

    lookup FindBatch { scope: Scope, id: BatchId } -> Option<BatchRecord>;
    /// Batches by id.
    search Batches { scope: Scope, slice: Slice<BatchId> } -> Vec<BatchRecord>;

    lookup FindSchedule { scope: Scope, name: Name } -> Option<ScheduleRecord>;
    /// Schedules by name.
    search Schedules { scope: Scope, slice: Slice<Name> } -> Piece<ScheduleRecord, Name>;
    /// The latest runs of a schedule, newest first.
    search Runs { scope: Scope, id: ScheduleId, limit: usize } -> Vec<Run>;

    /// Sessions that are open or were closed within the last `closed_within`, oldest first; at most
    /// `SESSIONS_LISTED_MAX`.
    lookup Sessions { closed_within: Duration } -> Vec<SessionRecord>;
    /// A worker of this environment, even with a closed session.
    lookup FindWorker { scope: Scope, id: SessionId } -> Option<WorkerRecord>;
    /// Workers of an environment whose sessions are open, oldest first; at most `SESSIONS_LISTED_MAX`.
    search Workers { scope: Scope } -> Vec<WorkerRecord>;
    /// The number of waiting tasks. The cost does not grow with the backlog; callers still ask at most every few
    /// seconds.
    lookup CountBacklog {} -> Backlog;
    /// The time before which messages have to go, so that the store gets closer to a size; none if it is small enough,
    /// or nothing more can go.
    lookup FindSizeCut { bytes_max: u64 } -> Option<Timestamp>;
    /// The pause of egress; none while requests are sent.
    lookup FindEgressPause {} -> Option<EgressPause>;
    /// The open tasks of an environment, counted up to a bound.
    search CountOpen { scope: Scope } -> OpenCounts;
    /// The due and dead deliveries of an endpoint, counted up to a bound.
    search CountLane { scope: Scope, endpoint: EndpointId } -> LaneCounts;
    /// The counts of traffic in the spans of one length since a time, newest first; at most `TRAFFIC_ROWS_MAX`.
    search Traffic { scope: Scope, span: Span, since: Timestamp } -> Vec<TrafficRow>;
}
