//! Statements that are equal in both stores. Their files are written for PostgreSQL; `expand` says how SQLite differs.
//!
//! A statement belongs here if one text has a good plan in both databases. Hot statements stay in the stores.

use std::time::Duration;

use bytes::Bytes;
use everhook_core::api_key::KeyRecord;
use everhook_core::application::{Environment, EnvironmentPolicy};
use everhook_core::audit::{AuditEntry, AuditHash, AuditPhase};
use everhook_core::egress::EgressPause;
use everhook_core::endpoint::Endpoint;
use everhook_core::failure_group::GroupState;
use everhook_core::id::{
    ApplicationId, AttemptId, BatchId, EndpointId, EnvironmentId, Id, JobId, KeyId, LaneId, MessageId, OrgId,
    ScheduleId, SessionId, TaskId, TokenKeyId,
};
use everhook_core::name::Name;
use everhook_core::resource::ResourceKind;
use everhook_core::right::KeyScope;
use everhook_core::role::Role;
use everhook_core::scope::AppScope;
use everhook_core::seal::{NeededKey, SealKeyId};
use everhook_core::task::TaskKind;
use everhook_core::time::Timestamp;
use everhook_core::token::TokenKey;

use crate::batch::BatchRecord;
use crate::catalog::{Having, NewKey, Order, Slice};
use crate::dedup::HASH_BYTES;
use crate::delivery::{BreakerRecord, EndpointCounts};
use crate::history::{Attempt, DeliveryLife};
use crate::job::JobAttempt;
use crate::lease::{NewSession, SessionRecord};
use crate::once::OnceRecord;
use crate::piece::names_beyond;
use crate::resource::Parent;
use crate::resource::encoding::Columns;
use crate::schedule::Run;
use crate::sql::param::StoreClock;
use crate::sql::rows::{FiringRow, ResourceRow};
use crate::sql::statement::{IncludedPart, TextOf};
use crate::worker::WorkerRecord;
use crate::{fields, statement};

/// The ids of an application's messages in a range.
pub const MESSAGE_ID: IncludedPart = ("message_id", include_str!("../../queries/parts/message_id.sql"));

/// An application's messages in a range of ids and times.
pub const MESSAGE_WINDOW: IncludedPart = ("message_window", include_str!("../../queries/parts/message_window.sql"));

/// The next messages of a poller.
pub const POLLED_DUE: IncludedPart = ("polled_due", include_str!("../../queries/parts/polled_due.sql"));

/// The tasks of a lane in a state.
pub const TASK_OF_LANE: IncludedPart = ("task_of_lane", include_str!("../../queries/parts/task_of_lane.sql"));

/// New values for an outbox row that was set aside.
pub const OUTBOX_CORRECTION: IncludedPart =
    ("outbox_correction", include_str!("../../queries/parts/outbox_correction.sql"));

/// A row that replaces one that was set aside before.
pub const OUTBOX_ASIDE: IncludedPart = ("outbox_aside", include_str!("../../queries/parts/outbox_aside.sql"));

/// A slice of the endpoints of all applications.
pub const ENDPOINT_SLICE: IncludedPart = ("endpoint_slice", include_str!("../../queries/parts/endpoint_slice.sql"));

/// The newest applications, in which messages are looked up.
pub const NEWEST_APPLICATION: IncludedPart =
    ("newest_application", include_str!("../../queries/parts/newest_application.sql"));

/// Resources of a kind, with the states of schedules.
pub const RESOURCE_OF_KIND: IncludedPart =
    ("resource_of_kind", include_str!("../../queries/parts/resource_of_kind.sql"));

/// Resources in a range of names; includes [`RESOURCE_OF_KIND`].
pub const RESOURCE_NAMED: IncludedPart = ("resource_named", include_str!("../../queries/parts/resource_named.sql"));

/// The hold of a listed delivery; includes [`DELIVERY_AHEAD`].
pub const DELIVERY_HOLD: IncludedPart = ("delivery_hold", include_str!("../../queries/parts/delivery_hold.sql"));

/// The deliveries that one with the same key waits for.
pub const DELIVERY_AHEAD: IncludedPart = ("delivery_ahead", include_str!("../../queries/parts/delivery_ahead.sql"));

/// The texts of the statements, for tests and tools.
pub const SHARED: &[TextOf] = STATEMENTS;

fields! {
    /// The columns of a resource.
    pub ResourceFields<'a> {
        environment: EnvironmentId,
        kind: ResourceKind,
        parent: Parent,
        id: Id,
        name: Option<&'a Name>,
        state: i16,
        spec: &'a str,
        info: &'a str,
        now: StoreClock,
    }

    /// The messages of one step of a list.
    pub MessageStep<'a> { above: &'a [u8], below: &'a [u8], limit: usize, order: Order }

    /// The rows that a search reads: those in a range, up to a number.
    pub IdScan<'a> { above: &'a [u8], below: &'a [u8], skipped: usize, order: Order }
}

/// A resource, with the state of a schedule.
pub type StoredResource = (ResourceRow, Option<FiringRow>);

statement! {
    // Environments and API keys.
    pub FindEnvironment = "find_environment" { org: OrgId } -> Option<Environment>;
    pub ListEnvironment = "list_environment" {} -> Vec<Environment>;
    pub ListEnvironmentPolicy = "list_environment_policy" { id: Id } -> Vec<(EnvironmentId, EnvironmentPolicy)>;
    pub ListPausedGroup = "list_paused_group" {} -> Vec<(EnvironmentId, Id)>;
    pub CreateKey<'a> = "create_key" {
        id: KeyId, hash: &'a [u8], hint: &'a str, name: &'a str, environment: Option<EnvironmentId>,
        application: Option<ApplicationId>, scope: KeyScope, rights: i16, expires_at: Option<Timestamp>,
        now: StoreClock,
    };
    pub FindKey<'a> = "find_key" { hash: &'a [u8] } -> Option<KeyRecord>;
    pub ListKey = "list_key" {} -> Vec<KeyRecord>;
    pub DeleteKey = "delete_key" { id: KeyId, now: StoreClock };
    pub UseKey = "use_key" { id: KeyId, now: StoreClock };

    // Application tokens.
    pub CreateTokenKey<'a> = "create_token_key" { id: TokenKeyId, secret: &'a [u8], is_first: bool, now: StoreClock };
    pub SupersedeTokenKey = "supersede_token_key" { id: TokenKeyId, now: StoreClock };
    pub DeleteTokenKey = "delete_token_key" { id: TokenKeyId };
    pub ListTokenKey = "list_token_key" {} -> Vec<TokenKey>;
    pub PruneTokenKey = "prune_token_key" { before: Timestamp };
    pub FindTokenEnd<'a> = "find_token_end" {
        scope: AppScope, all: &'a [u8], session: &'a [u8], token: &'a [u8], issued_at: Timestamp,
    } -> Option<Timestamp>;

    // Keys that seal secrets, and the sealed rows.
    pub ListSealKey = ("list_seal_key", "select {NeededKey} from everhook.seal_key order by state, id") {}
        -> Vec<NeededKey>;
    pub PutSealKey<'a> = "put_seal_key" { id: &'a SealKeyId, now: StoreClock };
    pub RetireSealKey<'a> = (
        "retire_seal_key",
        "update everhook.seal_key set state = 1 where id <> :id"
    ) { id: &'a SealKeyId };
    pub DeleteSealKey<'a> = (
        "delete_seal_key",
        "delete from everhook.seal_key where id = :id and state = 1"
    ) { id: &'a SealKeyId };
    pub ListSealedResource = "list_sealed_resource" {
        environment: EnvironmentId, kind: ResourceKind, parent: Parent, id: Id, limit: usize,
    } -> Vec<(EnvironmentId, ResourceKind, Parent, Id, String)>;
    pub ResealResource<'a> = "reseal_resource" {
        environment: EnvironmentId, kind: ResourceKind, parent: Parent, id: Id, old: &'a str, sealed: &'a str,
    };
    pub ListSealedRequest<'a> = "list_sealed_request" {
        environment: EnvironmentId, hash: &'a [u8; HASH_BYTES], limit: usize,
    } -> Vec<(EnvironmentId, [u8; HASH_BYTES], Bytes)>;
    pub ResealRequest<'a> = "reseal_request" {
        environment: EnvironmentId, hash: &'a [u8; HASH_BYTES], old: &'a [u8], sealed: &'a [u8],
    };
    pub ListSealedToken = ("list_sealed_token", "select id, secret from everhook.token_key") {}
        -> Vec<(TokenKeyId, Bytes)>;
    pub ResealToken<'a> = (
        "reseal_token",
        "update everhook.token_key set secret = :sealed where id = :id and secret = :old"
    ) { id: TokenKeyId, old: &'a [u8], sealed: &'a [u8] };

    // The pause of egress.
    pub FindEgressPause = "find_egress_pause" {} -> Option<EgressPause>;
    pub StartEgressPause<'a> = "start_egress_pause" { reason: &'a str, now: StoreClock };
    pub EndEgressPause = "end_egress_pause" {};

    // The audit log.
    pub AppendAudit<'a> = "append_audit" {
        environment: EnvironmentId, seq: i64, at: Timestamp, operation: Id, phase: AuditPhase, actor: &'a str,
        key: Option<KeyId>, principal: Option<&'a str>, action: &'a str, object: &'a str, reason: Option<&'a str>,
        status: Option<u16>, request: Option<&'a AuditHash>, before: Option<&'a AuditHash>,
        after: Option<&'a AuditHash>, hash: &'a AuditHash,
    };
    pub FindAuditEntry = "find_audit_entry" { environment: EnvironmentId, operation: Id, phase: AuditPhase }
        -> Option<i64>;
    pub FindAuditLast = "find_audit_last" { environment: EnvironmentId } -> Option<(i64, AuditHash)>;
    pub ListAudit<'a> = "list_audit" {
        environment: EnvironmentId, above: i64, below: i64, since: Timestamp, until: Timestamp,
        actor: Option<&'a str>, action: Option<&'a str>, object: Option<&'a str>, limit: usize, order: Order,
    } -> Vec<AuditEntry>;

    // Resources, and the rows that follow from them.
    pub CreateResource<'a> = "create_resource" { fields: ResourceFields<'a> } -> Option<ResourceRow>;
    pub FindResource = ["find_resource", RESOURCE_OF_KIND] { environment: EnvironmentId, kind: ResourceKind, parent: Parent, id: Id }
        -> Option<StoredResource>;
    pub FindResourceName<'a> = ["find_resource_name", RESOURCE_OF_KIND] {
        environment: EnvironmentId, kind: ResourceKind, parent: Parent, name: &'a Name,
    } -> Option<StoredResource>;
    pub ListResource<'a> = ["list_resource", "endpoint_of_resource"] {
        environment: EnvironmentId, kind: ResourceKind, parent: Parent, above: &'a [u8], below: &'a [u8],
        limit: usize, having: Having, order: Order,
    } -> Vec<ResourceRow>;
    pub ReplaceResource<'a> = "replace_resource" { fields: ResourceFields<'a>, revision: i64 } -> Option<ResourceRow>;
    pub MarkResourceDeleted = "mark_resource_deleted" {
        environment: EnvironmentId, kind: ResourceKind, parent: Parent, id: Option<Id>, now: StoreClock,
    } -> Vec<Id>;
    pub DeleteResource<'a> = "delete_resource" { environment: EnvironmentId, kind: ResourceKind, name: &'a Name }
        -> Option<Id>;
    pub ResolveApplication<'a> = "resolve_application" { environment: EnvironmentId, uid: &'a Name }
        -> Option<(ApplicationId, i64)>;
    pub CountResource = "count_resource" {
        environment: EnvironmentId, kind: ResourceKind, parent: Parent, limit: usize,
    } -> Option<usize>;
    pub CloseBreaker = "close_breaker" { environment: EnvironmentId, low: Id, high: Id, application: Option<Id> };
    pub ReleaseLaneLimit = "release_lane_limit" {
        environment: EnvironmentId, low: Id, high: Id, application: Option<Id>, order: bool,
    };
    pub TouchLaneGroup = "touch_lane_group" { environment: EnvironmentId, id: Id };
    pub TouchEnvironmentGroup = "touch_environment_group" { environment: EnvironmentId };
    pub DeleteLaneGroup = "delete_lane_group" { environment: EnvironmentId, id: Id };
    pub PutSchedule = "put_schedule" {
        environment: EnvironmentId, id: ScheduleId, next: Option<Timestamp>, queued: Option<Timestamp>,
        look_at: Timestamp,
    };

    // Quotas.
    pub ListQuota = "list_quota" { since: Timestamp, limit: usize } -> Vec<ResourceRow>;
    pub CountEndpointOpen = "count_endpoint_open" {
        environment: EnvironmentId, low: Id, high: Id, hidden: ApplicationId, limit: usize,
    } -> Option<usize>;
    pub CountMessage = "count_message" {
        environment: EnvironmentId, above_application: ApplicationId, above: MessageId, below: ApplicationId,
        limit: usize,
    } -> Option<(i64, Option<ApplicationId>, Option<MessageId>)>;

    // Schedules.
    pub ListScheduleRun = "list_schedule_run" { environment: EnvironmentId, schedule: ScheduleId, limit: usize }
        -> Vec<Run>;
    pub NextLook = (
        "next_look",
        "select look_at from everhook.schedule where look_at < 9223372036854775807 order by look_at limit 1"
    ) {} -> Option<Timestamp>;

    // Answers of requests.
    pub ClaimRequest<'a> = "claim_request" {
        environment: EnvironmentId, hash: &'a [u8; HASH_BYTES], holder: Id, body: &'a [u8; HASH_BYTES],
        claim_us: Duration, now: StoreClock,
    } -> Option<Id>;
    pub FindRequest<'a> = "find_request" { environment: EnvironmentId, hash: &'a [u8; HASH_BYTES] }
        -> Option<([u8; HASH_BYTES], Option<u16>, Option<Bytes>)>;
    pub FinishRequest<'a> = "finish_request" {
        environment: EnvironmentId, hash: &'a [u8; HASH_BYTES], holder: Id, status: u16, answer: Option<&'a [u8]>,
        kept_us: Duration, now: StoreClock,
    };
    pub ReleaseRequest<'a> = "release_request" { environment: EnvironmentId, hash: &'a [u8; HASH_BYTES], holder: Id };

    // Messages, deliveries and attempts.
    pub ExpungeMessage = "expunge_message" { scope: AppScope, id: MessageId };
    pub ScanMessage<'a> = ["scan_message", MESSAGE_ID] { scope: AppScope, scan: IdScan<'a> } -> Option<Id>;
    pub ListDestination = "list_destination" { scope: AppScope, message: MessageId }
        -> Vec<(Endpoint, Option<Timestamp>, DeliveryLife)>;
    pub FindAttempt = "find_attempt" { environment: EnvironmentId, message: MessageId, id: AttemptId }
        -> Option<Attempt>;
    pub ListMessageId<'a> = ["list_message_id", MESSAGE_ID] { scope: AppScope, step: MessageStep<'a> }
        -> Vec<MessageId>;
    pub CountEndpoint<'a> = ["count_endpoint", TASK_OF_LANE] {
        environment: EnvironmentId, endpoint: EndpointId, since: Timestamp, until: Timestamp, above: &'a [u8],
        below: &'a [u8], rows_max: usize,
    } -> Option<EndpointCounts>;
    pub FindBreaker = "find_breaker" { environment: EnvironmentId, endpoint: EndpointId } -> Option<BreakerRecord>;
    pub LaneApplication = (
        "lane_application",
        "select application from everhook.lane where environment = :environment and id = :id"
    ) { environment: EnvironmentId, id: LaneId } -> Option<ApplicationId>;
    pub DeadAttempt = (
        "dead_attempt",
        "select epoch from everhook.attempt where kind = :kind and environment = :environment and subject = :subject \
        and task = :task and end_state = 2 limit 1"
    ) { kind: TaskKind, environment: EnvironmentId, subject: MessageId, task: TaskId } -> Option<u32>;

    // Jobs.
    pub ScanJob<'a> = "scan_job" { environment: EnvironmentId, scan: IdScan<'a> } -> Option<Id>;
    pub ScanJobBatch<'a> = "scan_job_batch" { environment: EnvironmentId, scan: IdScan<'a>, batch: BatchId }
        -> Option<Id>;
    pub ScanJobDead<'a> = "scan_job_dead" { environment: EnvironmentId, scan: IdScan<'a> } -> Option<Id>;
    pub ScanTask<'a> = "scan_task" { environment: EnvironmentId, scan: IdScan<'a> } -> Option<Id>;
    pub ListJobAttempt = "list_job_attempt" { environment: EnvironmentId, job: JobId, limit: usize } -> Vec<JobAttempt>;
    pub ListBatch<'a> = "list_batch" {
        environment: EnvironmentId, above: &'a [u8], below: &'a [u8], limit: usize, order: Order,
    } -> Vec<BatchRecord>;

    // Background tasks.
    pub ResetTaskCrash = "reset_task_crash" { environment: EnvironmentId, job: JobId };
    pub ScanBackground<'a> = "scan_background" { owner: &'a str, scan: IdScan<'a> } -> Option<Id>;
    pub ListTaskDead = "list_task_dead" { environment: EnvironmentId, lane: EndpointId, after: Id, limit: usize }
        -> Vec<(MessageId, TaskId)>;

    // Pollers.
    pub FindPolledWaiting = "find_polled_waiting" { environment: EnvironmentId, endpoint: EndpointId, now: StoreClock }
        -> Option<(Timestamp, Timestamp)>;
    pub LockPoller = "lock_poller" { environment: EnvironmentId, endpoint: EndpointId } -> Option<i64>;
    pub PutPoller = "put_poller" { environment: EnvironmentId, endpoint: EndpointId, position: i64 };
    pub FindPolledBounds = "find_polled_bounds" { environment: EnvironmentId, endpoint: EndpointId }
        -> Option<(Option<i64>, i64)>;
    pub FindPolledSince = "find_polled_since" {
        environment: EnvironmentId, endpoint: EndpointId, floor: Id, limit: usize,
    } -> Option<Option<i64>>;
    pub FindPollConsumer<'a> = "find_poll_consumer" { environment: EnvironmentId, endpoint: EndpointId, name: &'a Name }
        -> Option<(i64, i64)>;
    pub CountPollConsumer = "count_poll_consumer" { environment: EnvironmentId, endpoint: EndpointId, limit: usize }
        -> Option<usize>;
    pub PutPollConsumer<'a> = "put_poll_consumer" {
        environment: EnvironmentId, endpoint: EndpointId, name: &'a Name, position: i64, generation: i64,
        now: StoreClock,
    };

    // Sessions and workers.
    pub OpenSession<'a> = "open_session" {
        id: SessionId, node: &'a str, role: Role, version: &'a str, lease_us: Duration, now: StoreClock,
    };
    pub CloseSession = "close_session" { id: SessionId, now: StoreClock };
    pub ListSession = "list_session" { closed_within: Duration, limit: usize, now: StoreClock } -> Vec<SessionRecord>;
    pub PutWorker = "put_worker" {
        environment: EnvironmentId, session: SessionId, queues: String, kinds: Option<String>,
    };
    pub ListWorker = "list_worker" { environment: EnvironmentId, limit: usize } -> Vec<WorkerRecord>;

    // Once-slots and failure groups.
    pub FindOnce<'a> = ["find_once", "once_slot"] { scope: AppScope, key: &'a Name } -> Option<OnceRecord>;
    pub ListOnce<'a> = ["list_once", "once_slot"] {
        scope: AppScope, above: &'a str, below: &'a str, limit: usize, order: Order,
    } -> Vec<OnceRecord>;
    pub PutFailureMark<'a> = "put_failure_mark" {
        environment: EnvironmentId, endpoint: EndpointId, class: &'a str, state: GroupState, note: &'a str,
        now: StoreClock,
    } -> Option<Timestamp>;
}

impl<'a> ResourceFields<'a> {
    /// Returns the columns of a resource with this `spec`, which may be sealed.
    pub fn new(environment: EnvironmentId, columns: &'a Columns, spec: &'a str, now: StoreClock) -> ResourceFields<'a> {
        let Columns { kind, parent, id, name, state, info, .. } = columns;
        let (kind, parent, id, state) = (*kind, *parent, *id, *state);
        ResourceFields { environment, kind, parent, id, name: name.as_ref(), state, spec, info, now }
    }
}

impl<'a> CreateKey<'a> {
    pub fn new(key: &'a NewKey, now: StoreClock) -> CreateKey<'a> {
        let NewKey { id, hash, hint, name, access, expires_at } = key;
        CreateKey {
            id: *id,
            hash,
            hint,
            name,
            environment: access.environment,
            application: access.application,
            scope: access.grants.scope,
            rights: access.grants.extra.to_db(),
            expires_at: *expires_at,
            now,
        }
    }
}

impl<'a> ListOnce<'a> {
    pub fn new(scope: AppScope, slice: &'a Slice<Name>) -> ListOnce<'a> {
        let (above, below) = names_beyond(slice);
        ListOnce { scope, above, below, limit: slice.limit, order: slice.order }
    }
}

impl<'a> OpenSession<'a> {
    pub fn new(session: &'a NewSession, now: StoreClock) -> OpenSession<'a> {
        let NewSession { id, node, role, version, lease, takes: _ } = session;
        OpenSession { id: *id, node, role: *role, version, lease_us: *lease, now }
    }
}

#[cfg(test)]
mod tests {
    use crate::sql::statement::Dialect;

    use super::*;

    #[test]
    fn every_shared_query_file_is_a_statement_and_can_be_expanded() {
        let names = |dialect| SHARED.iter().map(|text| text(dialect).name()).collect::<Vec<_>>();
        assert_eq!(names(Dialect::Postgres), names(Dialect::Sqlite));
        for file in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/queries")).unwrap() {
            let name = file.unwrap().file_name().to_string_lossy().into_owned();
            let Some(name) = name.strip_suffix(".sql") else { continue };
            assert!(names(Dialect::Postgres).contains(&name), "not declared by a `statement!`: {name}");
        }
    }
}
