//! The seam: one trait with every operation of a store, and layers around it.
//!
//! Writes are methods, because each has its own rule for doubt and repetition. Reads are values, see
//! [`query`](crate::query). [`store!`] declares the operations; it also makes [`Op`], which errors carry, and [`Layer`]
//! with [`Layered`], which put the same code around every call. A layer has to write [`Layer::around`] alone, and may
//! replace single operations.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use everhook_core::application::Environment;
use everhook_core::id::{BatchId, JobId, KeyId, OrgId, SessionId};
use everhook_core::job::report::Progress;
use everhook_core::job::{LeaseLost, LeaseProof};
use everhook_core::name::Name;
use everhook_core::scope::{AppScope, Scope};
use everhook_core::time::Timestamp;

use crate::backlog::PoolUse;
use crate::batch::{BatchRecord, NewBatch, Resolve, Resolved};
use crate::catalog::{Created, KeyChange, NewKey, Replaced};
use crate::dedup::DedupKey;
use crate::error::StoreError;
use crate::hints::Hints;
use crate::history::{Expunge, Resend, Resent};
use crate::job::{Enqueued, NewJob};
use crate::lease::{
    Append, Appended, LeaseAsk, LeaseGrant, NewSession, ReclaimAsk, Reclaimed, Renewed, Settled, Settlement,
};
use crate::made::WithMade;
use crate::query::{Answer, Query, QueryName, Read};
use crate::queue::QueueCount;
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
            $($(#[$sync_doc:meta])* fn $sync:ident() -> $value:ty = $default:expr;)*
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
                fn $sync(&self) -> $value {
                    $default
                }
            )*
        }

        /// The names of the operations, for errors and layers.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "named after the operations")]
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
            /// Runs one call, or refuses to. The call does nothing until it is awaited.
            fn around<T: Send>(
                &self,
                op: Op,
                call: impl Future<Output = Result<T, StoreError>> + Send,
            ) -> impl Future<Output = Result<T, StoreError>> + Send;

            $(
                /// The operation of this name, on the store below.
                fn $name(
                    &self,
                    store: &(impl Store + ?Sized),
                    $($arg: $type),*
                ) -> impl Future<Output = Result<$reply, StoreError>> + Send {
                    self.around(Op::$op, store.$name($($arg),*))
                }
            )*

            /// Any read, on the store below.
            fn answer(
                &self,
                store: &(impl Store + ?Sized),
                query: Query,
            ) -> impl Future<Output = Result<Answer, StoreError>> + Send {
                self.around(Op::Read(query.name()), store.answer(query))
            }

            $(
                /// The value of this name, of the store below.
                fn $sync(&self, store: &(impl Store + ?Sized)) -> $value {
                    store.$sync()
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
                fn $sync(&self) -> $value {
                    self.layer.$sync(&*self.store)
                }
            )*
        }
    };
}

/// A store with a layer around it.
pub struct Layered<S: ?Sized, L> {
    /// The store below.
    pub store: Arc<S>,
    /// The code around it.
    pub layer: L,
}

store! {
    /// Every operation of a store. One method is one transaction, and every write may be repeated.
    pub trait Store {
        /// Returns the time of the store's clock.
        [Now] fn now() -> Timestamp;
        /// Begins a session, with the queues that a worker takes from in the same transaction; returns the store's time.
        /// Repeating it is harmless.
        [OpenSession] fn open_session(new: NewSession) -> Timestamp;
        /// Extends a session by its lease, unless its session is closed.
        [RenewSession] fn renew_session(id: SessionId) -> Renewed;
        /// Ends a session; the tasks that it still holds may be reclaimed from now on.
        [CloseSession] fn close_session(id: SessionId) -> ();
        /// Closes every session past its lease, each under its row's lock by a clock that is read after the lock is
        /// held. The asking node has itself renewed without a gap for `steady`. A session with a longer lease stays
        /// open: before that, its holder may have found no server to renew with.
        [CloseExpired] fn close_expired(steady: Duration) -> Vec<SessionId>;
        /// Sets the queues that the session of a node takes from.
        [SetTakes] fn set_takes(id: SessionId, takes: Takes) -> ();

        /// Appends messages with their deliveries, in one transaction; one answer for each, in order.
        [Append] fn append(append: Append) -> Vec<Appended>;
        /// Writes jobs with their tasks, in one transaction; one answer for each, in order.
        [Enqueue] fn enqueue(jobs: Arc<[NewJob]>) -> Vec<Enqueued>;
        /// Leases due tasks, lane by lane, in turn; jobs never beyond the limits of their queues, over all sessions.
        [Lease] fn lease(ask: LeaseAsk) -> LeaseGrant;
        /// Ends attempts, in one transaction; one answer for each, in order. Repeating it is harmless.
        [Settle] fn settle(ends: Arc<[Settlement]>) -> WithMade<Vec<Settled>>;
        /// Takes over tasks from holders that are gone or late; the caller settles them.
        [Reclaim] fn reclaim(ask: ReclaimAsk) -> Vec<Reclaimed>;
        /// Keeps the progress of a job, if `by` still holds it.
        [ReportProgress] fn report_progress(
            scope: Scope, job: JobId, by: LeaseProof, progress: Progress
        ) -> Result<(), LeaseLost>;

        /// Adds a task for one manual attempt.
        [Resend] fn resend(scope: Scope, resend: Resend) -> Resent;
        /// Changes tasks as an operator asks, in one transaction.
        [Steer] fn steer(scope: Scope, steer: Steer) -> WithMade<Steered>;
        /// Removes content for good. Returns false if the object does not exist.
        [Expunge] fn expunge(scope: AppScope, what: Expunge) -> bool;
        /// Opens the next phase of a once-slot whose phase has its winner; keeps the slot. Returns false if the slot
        /// does not exist. Repeating it is harmless.
        [ResetOnce] fn reset_once(scope: AppScope, key: Name) -> bool;

        /// Creates a batch without jobs. `created_at` and `batch` are the store's to set.
        [CreateBatch] fn create_batch(scope: Scope, new: NewBatch) -> Created<BatchRecord>;
        /// Closes a batch for further jobs, and announces its end if all of them have ended. Repeating it is harmless.
        [SealBatch] fn seal_batch(scope: Scope, id: BatchId) -> WithMade<Option<BatchRecord>>;
        /// Retries or skips dead jobs of a batch, all of them or none: the new phase is opened first.
        [ResolveBatch] fn resolve_batch(scope: Scope, id: BatchId, resolve: Resolve) -> WithMade<Resolved>;
        /// Starts due schedules, at most `limit` of them in one transaction. Every node may ask at any time: a schedule
        /// that another node looks at is skipped, and no run is started twice.
        [FireDue] fn fire_due(limit: usize) -> FiredAll;
        /// Starts a schedule now, whatever its state; its own times stay. Returns none if the schedule does not exist.
        [RunSchedule] fn run_schedule(scope: Scope, name: Name) -> WithMade<Option<Run>>;

        /// Creates a resource; callers use [`Resources::create`].
        [CreateResource] fn create_resource(
            scope: Scope, new: NewResource, key: Option<DedupKey>
        ) -> Created<Resource>;
        /// Replaces a resource; callers use [`Resources::replace`].
        [ReplaceResource] fn replace_resource(scope: Scope, changed: ChangedResource) -> Replaced<Resource>;
        /// Deletes a resource, as its [`ResourceKey`] says.
        [DeleteResource] fn delete_resource(scope: Scope, key: ResourceKey) -> Deleted;
        /// The environment with this public id; created with `name` if it does not exist.
        [EnsureEnvironment] fn ensure_environment(org: OrgId, name: String) -> Environment;
        /// Keeps the hash of an API key.
        [CreateKey] fn create_key(key: NewKey) -> ();
        /// Changes an API key. Returns false if no working key has this id.
        [ChangeKey] fn change_key(id: KeyId, change: KeyChange) -> bool;

        /// Removes old rows; returns how many. A number below `limit` means that no more are old enough.
        [Prune] fn prune(prune: Prune) -> usize;
        /// Adds to the number of attempts that ended this minute.
        [AddCounts] fn add_counts(counts: Vec<QueueCount>) -> ();
        /// Looks after the store itself, such as partitions made ahead. Called at start and every hour.
        [Maintain] fn maintain() -> ();
    }
    sync {
        /// The use of the store's connections; none where it has no pool of them.
        fn pool_use() -> Option<PoolUse> = None;
        /// The reason why nothing can be written until a restart, if there is one.
        fn broken() -> Option<String> = None;
        /// The time by which the store's clock is ahead of the wall clock, where it does not follow that back at once.
        /// Signatures carry wall time.
        fn ahead() -> Duration = Duration::ZERO;
        /// Wake-ups between the nodes of this store; none where there is one node, or no line between them.
        fn hints() -> Option<Arc<dyn Hints>> = None;
    }
    // Errors of what is no operation of the trait: outboxes, wake-ups, and the preparation of statements.
    besides {
        RelayOutbox = "relay_outbox",
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
    /// The name in words: `open session`, `find message`.
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
    /// Answers a read.
    fn read<Q: Read>(&self, query: Q) -> impl Future<Output = Result<Q::Answer, StoreError>> + Send {
        async move {
            let answer = self.answer(query.into()).await?;
            Ok(Q::answer(answer).expect("a store answers the query that it was asked"))
        }
    }
}

impl<S: Store + ?Sized> Reads for S {}

/// Resources with typed records, on every store.
pub trait Resources: Store {
    /// Creates a resource.
    fn create<R: Create>(
        &self,
        scope: Scope,
        new: R,
        key: Option<DedupKey>,
    ) -> impl Future<Output = Result<Created<R::Record>, StoreError>> + Send {
        async move { Ok(self.create_resource(scope, new.into(), key).await?.map(of_kind)) }
    }

    /// Replaces a resource whose revision is still the given one.
    fn replace<R: Change>(
        &self,
        scope: Scope,
        changed: R,
    ) -> impl Future<Output = Result<Replaced<R::Record>, StoreError>> + Send {
        async move { Ok(self.replace_resource(scope, changed.into()).await?.map(of_kind)) }
    }
}

impl<S: Store + ?Sized> Resources for S {}

/// The record of the kind that was asked for.
pub fn of_kind<R: TryFrom<Resource, Error = Resource>>(resource: Resource) -> R {
    R::try_from(resource).unwrap_or_else(|other| panic!("a store returns the kind that it was given, not {other:?}"))
}
