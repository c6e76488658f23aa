//! The seam: one trait with every operation of a store, and layers around it.
//!
//! Writes are methods, because each has its own rule for doubt and repetition. Reads are values, see
//! [`query`](crate::query). [`store!`] declares the operations. It also makes [`Op`], which errors carry, and [`Layer`]
//! with [`Layered`], which run the same code around every call. A layer must implement [`Layer::around`] only, and may
//! replace single operations.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use everhook_core::application::Environment;
use everhook_core::audit::AuditFacts;
use everhook_core::id::{BatchId, Id, KeyId, OrgId, SessionId};
use everhook_core::job::LeaseLost;
use everhook_core::name::Name;
use everhook_core::poll::PollMark;
use everhook_core::scope::{AppScope, Scope};
use everhook_core::time::Timestamp;
use everhook_core::token::{TokenEnd, TokenKeyChange};
use everhook_core::traffic::TrafficRow;

use crate::background::{Advance, Advanced};
use crate::backlog::PoolUse;
use crate::batch::{BatchRecord, NewBatch, Resolve, Resolved};
use crate::catalog::{Created, KeyChange, NewKey, NewTokenKey, Replaced};
use crate::dedup::DedupKey;
use crate::error::StoreError;
use crate::failure::FailureNote;
use crate::hints::Hints;
use crate::history::{Expunge, Resend, Resent};
use crate::job::{Enqueued, NewJob, ProgressReport};
use crate::lease::{
    Append, Appended, LeaseAsk, LeaseGrant, NewSession, ReclaimAsk, Reclaimed, Renewed, Settled, Settlement,
};
use crate::made::WithMade;
use crate::poll::{PollAsk, Polled, SeekAsk};
use crate::query::{Answer, Query, QueryName, Read};
use crate::queue::QueueCount;
use crate::request::{RequestClaim, RequestEnd};
use crate::resource::{Change, ChangedResource, Create, Deleted, NewResource, Resource, ResourceKey};
use crate::retention::Prune;
use crate::schedule::{FiredAll, Run};
use crate::steer::{Steer, Steered};
use crate::worker::Takes;

macro_rules! store {
    (
        $(#[$trait_doc:meta])*
        pub trait Store {
            $($(#[$doc:meta])* [$op:ident] fn $name:ident($($arg:ident: $type:ty),*) -> $reply:ty;)*
        }
        sync {
            $(
                $(#[$sync_doc:meta])*
                fn $sync:ident($($known:ident: $known_type:ty),*) -> $value:ty = $default:expr;
            )*
        }
        besides {
            $($other:ident = $text:literal,)*
        }
    ) => {
        $(#[$trait_doc])*
        #[async_trait]
        pub trait Store: Send + Sync {
            $(
                $(#[$doc])*
                async fn $name(&self, $($arg: $type),*) -> Result<$reply, StoreError>;
            )*

            /// Answers any read; callers use [`Reads::read`], which knows the type of the answer.
            async fn answer(&self, query: Query) -> Result<Answer, StoreError>;

            $(
                $(#[$sync_doc])*
                fn $sync(&self, $($known: $known_type),*) -> $value {
                    $(let _ = $known;)*
                    $default
                }
            )*
        }

        /// The names of the operations, for errors and layers.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Op {
            $($op,)*
            Read(QueryName),
            $($other,)*
        }

        impl Op {
            const fn as_str(self) -> &'static str {
                match self {
                    $(Op::$op => stringify!($name),)*
                    Op::Read(query) => query.as_str(),
                    $(Op::$other => $text,)*
                }
            }
        }

        /// Code around the operations of a store: faults, delays, records of calls.
        pub trait Layer: Send + Sync {
            /// Runs one call, or refuses it. The call does nothing until it is awaited.
            fn around<T: Send>(
                &self,
                _: Op,
                call: impl Future<Output = Result<T, StoreError>> + Send,
            ) -> impl Future<Output = Result<T, StoreError>> + Send {
                call
            }

            $(
                /// Calls the operation of the store below.
                fn $name(
                    &self,
                    store: &(impl Store + ?Sized),
                    $($arg: $type),*
                ) -> impl Future<Output = Result<$reply, StoreError>> + Send {
                    self.around(Op::$op, store.$name($($arg),*))
                }
            )*

            /// Reads from the store below.
            fn answer(
                &self,
                store: &(impl Store + ?Sized),
                query: Query,
            ) -> impl Future<Output = Result<Answer, StoreError>> + Send {
                self.around(Op::Read(query.name()), store.answer(query))
            }

            $(
                /// Returns the value of the store below.
                fn $sync(&self, store: &(impl Store + ?Sized), $($known: $known_type),*) -> $value {
                    store.$sync($($known),*)
                }
            )*
        }

        #[async_trait]
        impl<S: Store + ?Sized, L: Layer> Store for Layered<S, L> {
            $(
                async fn $name(&self, $($arg: $type),*) -> Result<$reply, StoreError> {
                    self.layer.$name(&*self.store, $($arg),*).await
                }
            )*

            async fn answer(&self, query: Query) -> Result<Answer, StoreError> {
                self.layer.answer(&*self.store, query).await
            }

            $(
                fn $sync(&self, $($known: $known_type),*) -> $value {
                    self.layer.$sync(&*self.store, $($known),*)
                }
            )*
        }
    };
}

/// A store with a layer around it.
pub struct Layered<S: ?Sized, L> {
    pub store: Arc<S>,
    pub layer: L,
}

store! {
    /// Every operation of a store. One method is one transaction, and every write may be repeated.
    pub trait Store {
        /// Returns the time of the store's clock.
        [Now] fn now() -> Timestamp;
        /// Opens a session. The queues of a worker are written in the same transaction. Returns the store's time.
        /// Repeatable.
        [OpenSession] fn open_session(new: NewSession) -> Timestamp;
        /// Extends a session by its lease, unless it is closed.
        [RenewSession] fn renew_session(id: SessionId) -> Renewed;
        /// Closes a session. The tasks that it still holds may be reclaimed from now on.
        [CloseSession] fn close_session(id: SessionId) -> ();
        /// Closes every session past its lease. The clock is read after the row's lock is held, so that a renewal that
        /// waited for the lock is seen.
        ///
        /// The asking node has renewed its own session without a gap for `steady`. Sessions with a longer lease stay
        /// open: the store may have been unreachable for their holders until then.
        [CloseExpired] fn close_expired(steady: Duration) -> Vec<SessionId>;
        /// Sets the queues that the session of a node takes from.
        [SetTakes] fn set_takes(id: SessionId, takes: Takes) -> ();

        /// Appends messages with their deliveries, in one transaction; one answer for each, in order.
        [Append] fn append(append: Append) -> Vec<Appended>;
        /// Writes jobs with their tasks, in one transaction; one answer for each, in order.
        [Enqueue] fn enqueue(jobs: Arc<[NewJob]>) -> Vec<Enqueued>;
        /// Leases due tasks; lanes take turns. The limits of a queue hold over all sessions.
        [Lease] fn lease(ask: LeaseAsk) -> LeaseGrant;
        /// Ends attempts, in one transaction; one answer for each, in order. Repeatable.
        [Settle] fn settle(ends: Arc<[Settlement]>) -> WithMade<Vec<Settled>>;
        /// Takes over tasks from holders that are gone or late. The caller settles them.
        [Reclaim] fn reclaim(ask: ReclaimAsk) -> Vec<Reclaimed>;
        /// Stores the progress of a job if `by` still holds it.
        [ReportProgress] fn report_progress(scope: Scope, report: ProgressReport) -> Result<(), LeaseLost>;

        /// Does the next slice of bulk work in this environment and stores its position, if `by` still holds the job.
        /// Returns none if the endpoint does not exist. Repeatable: a caller in doubt reads the position of the job.
        [Advance] fn advance(scope: Scope, advance: Advance) -> Result<Option<Advanced>, LeaseLost>;

        /// Adds a task for one manual attempt.
        [Resend] fn resend(scope: Scope, resend: Resend) -> Resent;
        /// Changes tasks as an operator asks, in one transaction.
        [Steer] fn steer(scope: Scope, steer: Steer) -> WithMade<Steered>;
        /// Stores the state of a failure group, replacing an earlier one. Returns the time of the write. Repeatable.
        [MarkFailures] fn mark_failures(scope: Scope, note: FailureNote) -> Timestamp;
        /// Removes content for good. Returns false if the object does not exist.
        [Expunge] fn expunge(scope: AppScope, what: Expunge) -> bool;
        /// Opens the next phase of a once-slot whose current phase has a winner. The slot stays. Returns false if the
        /// slot does not exist. Repeatable.
        [ResetOnce] fn reset_once(scope: AppScope, key: Name) -> bool;

        /// Creates a batch without jobs. The store sets `created_at` and `batch`.
        [CreateBatch] fn create_batch(scope: Scope, new: NewBatch) -> Created<BatchRecord>;
        /// Closes a batch for further jobs, and announces its end if all jobs have ended. Repeatable.
        [SealBatch] fn seal_batch(scope: Scope, id: BatchId) -> WithMade<Option<BatchRecord>>;
        /// Retries or skips dead jobs of a batch, all of them or none. The new phase opens first.
        [ResolveBatch] fn resolve_batch(scope: Scope, resolve: Resolve) -> WithMade<Resolved>;
        /// Starts due schedules, at most `limit` in one transaction. Every node may call this at any time: a schedule
        /// that another node has locked is skipped, and no run starts twice.
        [FireDue] fn fire_due(limit: usize) -> FiredAll;
        /// Starts a schedule now, in any state; its own times stay. Returns none if the schedule does not exist.
        [RunSchedule] fn run_schedule(scope: Scope, name: Name) -> WithMade<Option<Run>>;

        /// Creates a resource; callers use [`Resources::create`].
        [CreateResource] fn create_resource(scope: Scope, new: NewResource) -> WithMade<Created<Resource>>;
        /// Replaces a resource; callers use [`Resources::replace`].
        [ReplaceResource] fn replace_resource(
            scope: Scope, changed: ChangedResource
        ) -> WithMade<Replaced<Resource>>;
        /// Deletes a resource with the effects described at [`ResourceKey`].
        [DeleteResource] fn delete_resource(scope: Scope, key: ResourceKey) -> WithMade<Deleted>;
        /// Returns the environment with this public id; creates it with `name` if it does not exist.
        [EnsureEnvironment] fn ensure_environment(org: OrgId, name: String) -> Environment;
        /// Stores the hash of an API key.
        [CreateKey] fn create_key(key: NewKey) -> ();
        /// Changes an API key. Returns false if no active key has this id.
        [ChangeKey] fn change_key(id: KeyId, change: KeyChange) -> bool;
        /// Appends an entry to the audit log of an environment. Repeatable: each phase of an operation has one entry.
        [AppendAudit] fn append_audit(scope: Scope, facts: AuditFacts) -> ();
        /// Stores a key that signs application tokens. Repeatable.
        [PutTokenKey] fn put_token_key(key: NewTokenKey, change: TokenKeyChange) -> ();
        /// Ends tokens of an application before they expire. An earlier end of the same tokens stays in force.
        /// Repeatable.
        [EndTokens] fn end_tokens(scope: AppScope, ends: Vec<TokenEnd>) -> ();

        /// Returns messages of a polled endpoint. New messages get their positions first, in the order of their
        /// commits. Stores the position that a consumer has confirmed. Repeatable.
        [Poll] fn poll(scope: AppScope, ask: PollAsk) -> Polled;
        /// Moves a consumer to a time, and makes its earlier marks invalid. Returns none if the poller has too many
        /// consumers.
        [Seek] fn seek(scope: AppScope, ask: SeekAsk) -> Option<PollMark>;

        /// Claims the key of a request for `holder`. Repeatable by the same holder.
        [ClaimRequest] fn claim_request(scope: Scope, key: DedupKey, holder: Id) -> RequestClaim;
        /// Stores the answer of a request, or releases its key if there is no answer to keep. Has no effect if `holder`
        /// has lost the key. Repeatable.
        [FinishRequest] fn finish_request(scope: Scope, end: RequestEnd) -> ();

        /// Pauses egress with this reason on every node, or ends the pause. Repeatable.
        [SetEgressPause] fn set_egress_pause(reason: Option<String>) -> ();

        /// Prunes old rows and returns how many. A number below `limit` means that no older rows are left.
        [Prune] fn prune(prune: Prune) -> usize;
        /// Adds to the number of attempts that ended this minute.
        [AddCounts] fn add_counts(counts: Vec<QueueCount>) -> ();
        /// Writes counts of traffic, replacing those that the same source wrote for the same span. Repeatable.
        [PutTraffic] fn put_traffic(rows: Vec<TrafficRow>) -> ();
        /// Maintains the store itself, for example creates partitions ahead. Called at start and every hour.
        [Maintain] fn maintain() -> ();
    }
    sync {
        /// Returns the use of the connections; none if the store has no pool.
        fn pool_use() -> Option<PoolUse> = None;
        /// Returns the reason why the store refuses writes until a restart, if there is one.
        fn broken() -> Option<String> = None;
        /// Returns how far the store's clock is ahead of the wall clock. Signatures need the wall clock. Only the clock
        /// of the embedded store can be ahead, because it never runs backwards.
        fn ahead() -> Duration = Duration::ZERO;
        /// Returns the number of endpoints of an application, if the store knows it without reading. The number may be
        /// outdated.
        fn endpoints_known(scope: AppScope) -> Option<usize> = None;
        /// Returns the wake-ups between nodes; none if the store has no channel between them.
        fn hints() -> Option<Arc<dyn Hints>> = None;
    }
    // Names for errors outside the trait: outboxes, wake-ups, and the preparation of statements.
    besides {
        TakeOutbox = "take_outbox",
        FinishOutbox = "finish_outbox",
        OutboxStatus = "read_outbox_status",
        ListAside = "list_aside",
        ReplaceAside = "replace_aside",
        RetryAside = "retry_aside",
        DiscardAside = "discard_aside",
        NotifyNodes = "notify_nodes",
        ListenForNodes = "listen_for_nodes",
        PlanStatements = "plan_statements",
    }
}

impl fmt::Display for Op {
    /// Writes the name in words: `open session`, `find message`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, letter) in self.as_str().char_indices() {
            match letter {
                '_' => f.write_str(" ")?,
                upper if upper.is_ascii_uppercase() => {
                    let space = if at > 0 { " " } else { "" };
                    write!(f, "{space}{}", upper.to_ascii_lowercase())?;
                }
                other => write!(f, "{other}")?,
            }
        }
        Ok(())
    }
}

/// Reads with typed answers, on every store.
pub trait Reads: Store {
    fn read<Q: Read>(&self, query: Q) -> impl Future<Output = Result<Q::Answer, StoreError>> + Send {
        async move {
            let answer = self.answer(query.into()).await?;
            Ok(Q::answer(answer).expect("a store answers the query that it was asked"))
        }
    }
}

impl<S: Store + ?Sized> Reads for S {}

/// Resources with typed records, on every store. The messages that report changes are not counted.
pub trait Resources: Store {
    fn create<R: Create>(
        &self,
        scope: Scope,
        new: R,
        key: Option<DedupKey>,
    ) -> impl Future<Output = Result<Created<R::Record>, StoreError>> + Send {
        async move { Ok(self.create_resource(scope, NewResource { key, ..new.into() }).await?.answer.map(of_kind)) }
    }

    /// Replaces a resource whose revision is still the given one.
    fn replace<R: Change>(
        &self,
        scope: Scope,
        changed: R,
    ) -> impl Future<Output = Result<Replaced<R::Record>, StoreError>> + Send {
        async move { Ok(self.replace_resource(scope, changed.into()).await?.answer.map(of_kind)) }
    }

    fn delete(&self, scope: Scope, key: ResourceKey) -> impl Future<Output = Result<Deleted, StoreError>> + Send {
        async move { Ok(self.delete_resource(scope, key).await?.answer) }
    }
}

impl<S: Store + ?Sized> Resources for S {}

/// Unwraps the record of the requested kind.
pub fn of_kind<R: TryFrom<Resource, Error = Resource>>(resource: Resource) -> R {
    R::try_from(resource).unwrap_or_else(|other| panic!("a store returns the kind that it was given, not {other:?}"))
}
