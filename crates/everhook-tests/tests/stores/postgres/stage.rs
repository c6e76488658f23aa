//! One application with one endpoint, for tests of this store only.

use std::sync::Arc;

use everhook_core::id::{ApplicationId, AttemptId, EndpointId, EnvironmentId, Id, MessageId, OrgId, SessionId};
use everhook_core::lifecycle::{EndState, NextRow};
use everhook_core::limits::ENDPOINTS_MAX;
use everhook_core::outcome::Class;
use everhook_core::role::Role;
use everhook_core::scope::Scope;
use everhook_core::task::{Task, Trigger};
use everhook_core::time::Timestamp;
use everhook_postgres::PostgresStore;
use everhook_store::dedup::DedupKey;
use everhook_store::error::StoreError;
use everhook_store::ids::Ids;
use everhook_store::lease::{Append, Appended, LeaseAsk, NewAttempt, NewMessage, NewSession, Settled, Settlement};
use everhook_store::resource::New;
use everhook_store::store::{Resources, Store};
use everhook_testkit::conformance::fixture::{FixedCapacity, HOUR, fast, new_application, new_endpoint, new_message};

/// One application with one endpoint, and a session.
pub(crate) struct Stage {
    pub(crate) store: Arc<PostgresStore>,
    pub(crate) environment: EnvironmentId,
    pub(crate) application: ApplicationId,
    pub(crate) session: SessionId,
    ids: Ids,
    began: Timestamp,
}

impl Stage {
    pub(crate) async fn new(store: PostgresStore) -> Stage {
        let (ids, began) = (Ids::from_system(), store.now().await.unwrap());
        let id = || ids.next(began);
        let environment = store.ensure_environment(OrgId(id()), "default".to_owned()).await.unwrap().id;
        let (application, endpoint, session) = (ApplicationId(id()), EndpointId(id()), SessionId(id()));
        store.create(Scope::of(environment), new_application(application), None).await.unwrap();
        store
            .create(
                Scope::of(environment),
                New { record: new_endpoint(endpoint, application), max: ENDPOINTS_MAX },
                None,
            )
            .await
            .unwrap();
        let (node, version) = ("node:1".to_owned(), "0".to_owned());
        let tenure = NewSession { id: session, node, role: Role::All, version, lease: HOUR, takes: None };
        store.open_session(tenure.clone()).await.unwrap();
        Stage { store: Arc::new(store), environment, application, session, ids, began }
    }

    pub(crate) fn id(&self) -> Id {
        self.ids.next(self.began)
    }

    pub(crate) fn message(&self, keys: Vec<DedupKey>) -> NewMessage {
        self.message_with_id(self.id(), keys)
    }

    pub(crate) fn message_with_id(&self, id: Id, keys: Vec<DedupKey>) -> NewMessage {
        let message = new_message(MessageId(id), self.application);
        NewMessage { keys, ..NewMessage::new(self.environment, message) }
    }

    /// Appends messages whose deliveries are leased to this session at once.
    pub(crate) async fn append_fast(&self, messages: Vec<NewMessage>) -> Result<Vec<Task>, StoreError> {
        let capacity = FixedCapacity::of(usize::MAX / 2);
        let answers = self.store.append(Append { fast: Some(fast(self.session, &capacity)), messages }).await?;
        let tasks = |answer: Appended| match answer {
            Appended::Accepted { leased, .. } => leased.into_iter().map(|(leased, _)| leased.task),
            other => panic!("{other:?}"),
        };
        Ok(answers.into_iter().flat_map(tasks).collect())
    }

    /// Appends messages whose deliveries are pending.
    pub(crate) async fn append(&self, messages: Vec<NewMessage>) -> Result<Vec<Appended>, StoreError> {
        self.store.append(Append { fast: None, messages }).await
    }

    pub(crate) async fn lease(&self, limit: usize) -> Result<Vec<Task>, StoreError> {
        let ask = LeaseAsk { per_lane: limit, ..LeaseAsk::deliveries(self.session, limit) };
        Ok(self.store.lease(ask).await?.tasks.into_iter().map(|leased| leased.task).collect())
    }

    pub(crate) fn settlement(&self, task: &Task, row: NextRow) -> Settlement {
        let (class, end) = match row {
            NextRow::Gone => (Class::Success, EndState::Succeeded),
            NextRow::Pending { .. } => (Class::Status, EndState::Open),
            NextRow::Dead => (Class::Status, EndState::Dead),
        };
        let attempt = NewAttempt {
            holder: None,
            id: AttemptId(self.id()),
            class,
            end,
            trigger: Trigger::Scheduled,
            url: "https://example.com/hook".to_owned(),
            status: 200,
            reply: Default::default(),
            started_at: self.began,
            duration: Default::default(),
            exchange: None,
        };
        Settlement { row, tries: task.tries + 1, attempt: Some(attempt), ..Settlement::of(task, self.session) }
    }

    /// Settles one attempt, which must be recorded.
    pub(crate) async fn end(&self, task: &Task, row: NextRow) {
        let settled = self.store.settle([self.settlement(task, row)].into()).await.unwrap();
        assert_eq!(settled.answer, [Settled::Done]);
    }
}
