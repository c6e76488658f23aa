//! A store with one application in each of two environments, for the other files.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use everhook_core::id::{ApplicationId, AttemptId, EndpointId, EnvironmentId, Id, JobId, MessageId, OrgId, SessionId};
use everhook_core::job::{Job, RunAt};
use everhook_core::lifecycle::{EndState, NextRow};
use everhook_core::limits::ENDPOINTS_MAX;
use everhook_core::name::Name;
use everhook_core::outcome::Class;
use everhook_core::role::Role;
use everhook_core::scope::Scope;
use everhook_core::task::Task;
use everhook_core::time::Timestamp;
use everhook_sqlite::{OpenAs, SqliteStore};
use everhook_store::catalog::Created;
use everhook_store::dedup::DedupKey;
use everhook_store::ids::Ids;
use everhook_store::job::NewJob;
use everhook_store::lease::{
    Append, Appended, FastPath, FeedAsk, LeaseAsk, Leased, NewAttempt, NewMessage, NewSession, Reclaim, ReclaimAsk,
    Reclaimed, Settled, Settlement,
};
use everhook_store::resource::New;
use everhook_store::store::{Resources, Store};
use everhook_testkit::conformance::fixture::{HOUR, new_application, new_endpoint, new_message};

pub(crate) struct Stage {
    pub(crate) store: SqliteStore,
    pub(crate) ids: Arc<Ids>,
    pub(crate) environment: EnvironmentId,
    pub(crate) other: EnvironmentId,
    pub(crate) application: ApplicationId,
}

impl Stage {
    pub(crate) async fn in_memory() -> Stage {
        let ids = Arc::new(Ids::from_system());
        Stage::on(SqliteStore::open_in_memory(Arc::clone(&ids)).unwrap(), ids).await
    }

    pub(crate) async fn in_folder(folder: &Path) -> Stage {
        let ids = Arc::new(Ids::from_system());
        Stage::on(SqliteStore::open(folder, OpenAs::Server, Arc::clone(&ids)).unwrap(), ids).await
    }

    /// Creates the same application id in both environments.
    pub(crate) async fn on(store: SqliteStore, ids: Arc<Ids>) -> Stage {
        let now = store.now().await.unwrap();
        let id = || ids.next(now);
        let environment = store.ensure_environment(OrgId(id()), "one".to_owned()).await.unwrap().id;
        let other = store.ensure_environment(OrgId(id()), "two".to_owned()).await.unwrap().id;
        let application = ApplicationId(id());
        for environment in [environment, other] {
            let created = store.create(Scope::of(environment), new_application(application), None).await.unwrap();
            assert!(matches!(created, Created::New(_)));
        }
        Stage { store, ids, environment, other, application }
    }

    pub(crate) fn id(&self) -> Id {
        self.ids.next(Timestamp::from_millis(1_700_000_000_000))
    }

    pub(crate) async fn session(&self) -> SessionId {
        let id = SessionId(self.id());
        let session =
            NewSession { id, node: "test".into(), role: Role::All, version: "0".into(), lease: HOUR, takes: None };
        self.store.open_session(session.clone()).await.unwrap();
        id
    }

    pub(crate) async fn endpoint(&self) -> EndpointId {
        let id = EndpointId(self.id());
        let created = self
            .store
            .create(
                Scope::of(self.environment),
                New { record: new_endpoint(id, self.application), max: ENDPOINTS_MAX },
                None,
            )
            .await;
        assert!(matches!(created.unwrap(), Created::New(_)));
        id
    }

    pub(crate) fn message(&self, keys: Vec<DedupKey>) -> NewMessage {
        let message = new_message(MessageId(self.id()), self.application);
        NewMessage { keys, ..NewMessage::new(self.environment, message) }
    }

    pub(crate) async fn append(&self, fast: Option<FastPath>, messages: Vec<NewMessage>) -> Vec<Appended> {
        self.store.append(Append { fast, messages }).await.unwrap()
    }

    /// Appends messages whose deliveries are pending.
    pub(crate) async fn send(&self, count: usize) {
        let messages = (0..count).map(|_| self.message(Vec::new())).collect();
        let answers = self.append(None, messages).await;
        assert!(answers.iter().all(|answer| matches!(answer, Appended::Accepted { .. })), "{answers:?}");
    }

    pub(crate) async fn lease(&self, session: SessionId) -> Vec<Leased> {
        let ask = LeaseAsk { per_lane: 100, ..LeaseAsk::deliveries(session, 100) };
        self.store.lease(ask).await.unwrap().tasks
    }

    /// Enqueues plain jobs on the queue `q`.
    pub(crate) async fn enqueue(&self, jobs: usize) {
        let (queue, kind): (Name, Name) = ("q".parse().unwrap(), "k".parse().unwrap());
        let job = || Job::new(JobId(self.id()), queue.clone(), kind.clone(), Bytes::from_static(b"{}"));
        let new = |job| NewJob { environment: self.environment, job, run_at: RunAt::Now, key: None };
        let jobs: Vec<_> = (0..jobs).map(|_| new(job())).collect();
        self.store.enqueue(jobs.clone().into()).await.unwrap();
    }

    /// Leases all jobs of the queue `q`.
    pub(crate) async fn lease_jobs(&self, session: SessionId) -> Vec<Leased> {
        let queue = FeedAsk::queue(self.environment, "q".parse().unwrap(), 100);
        let ask = LeaseAsk { watched: true, ..LeaseAsk::new(session, 100, vec![queue]) };
        self.store.lease(ask.clone()).await.unwrap().tasks
    }

    pub(crate) async fn reclaim(&self, session: SessionId, what: Reclaim) -> Vec<Reclaimed> {
        self.store.reclaim(ReclaimAsk { session, limit: 10, what }).await.unwrap()
    }

    pub(crate) fn settlement(&self, task: &Task, session: SessionId, row: NextRow) -> Settlement {
        let attempt = NewAttempt {
            id: AttemptId(self.id()),
            holder: None,
            class: Class::Success,
            end: if row == NextRow::Gone { EndState::Succeeded } else { EndState::Open },
            trigger: task.trigger,
            url: "https://example.com".into(),
            status: 200,
            reply: Bytes::from_static(b"ok"),
            started_at: task.due_at,
            duration: Duration::from_millis(5),
            exchange: None,
        };
        Settlement { row, tries: task.tries + 1, attempt: Some(attempt), ..Settlement::of(task, session) }
    }

    pub(crate) async fn settle(&self, settlement: &Settlement) -> Settled {
        self.store.settle([settlement.clone()].into()).await.unwrap().answer[0]
    }
}
