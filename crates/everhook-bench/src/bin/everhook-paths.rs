//! Runs a hot path a given number of times, so that `cargo xtask callgrind` can count its instructions.
//!
//! Usage: `everhook-paths <path> <messages>`. The path `append` appends messages in batches to the embedded store in
//! memory. The path `settle` also settles them in batches. The path `engine` accepts, sends and settles messages with
//! the engine on the in-memory store. The cost of a message is the difference between runs with different numbers of
//! messages.

#![expect(clippy::disallowed_methods, reason = "the store in memory is given a clock")]

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use async_trait::async_trait;
use bytes::Bytes;
use everhook_core::application::Application;
use everhook_core::dispatch::DispatchConfig;
use everhook_core::endpoint::Endpoint;
use everhook_core::exchange::Exchange;
use everhook_core::fair::GroupedLane;
use everhook_core::id::{ApplicationId, AttemptId, EndpointId, EnvironmentId, Id, LaneId, MessageId, OrgId, SessionId};
use everhook_core::lifecycle::{EndState, NextRow};
use everhook_core::limits::ENDPOINTS_MAX;
use everhook_core::message::{Message, Rest};
use everhook_core::outcome::{Class, Reply, SendFailure};
use everhook_core::retry::RetryPolicy;
use everhook_core::role::Role;
use everhook_core::scope::Scope;
use everhook_core::time::Timestamp;
use everhook_engine::config::NodeConfig;
use everhook_engine::entropy::Entropy;
use everhook_engine::node::Node;
use everhook_engine::retention::Ages;
use everhook_engine::session::NodeName;
use everhook_engine::transport::Transport;
use everhook_sender::Request;
use everhook_sqlite::SqliteStore;
use everhook_store::capacity::Capacity;
use everhook_store::dedup::DedupKey;
use everhook_store::ids::Ids;
use everhook_store::lease::{Append, Appended, FastPath, Leased, NewAttempt, NewMessage, NewSession, Settlement};
use everhook_store::resource::New;
use everhook_store::store::{Resources, Store};
use everhook_testkit::mem::MemStore;

/// Messages of one transaction, and requests in progress at the same time.
const BATCH: usize = 50;
const HOUR: Duration = Duration::from_secs(3600);
const APPLICATION: ApplicationId = ApplicationId(Id::MIN);

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().context("the path is required: append, settle or engine")?;
    let messages = arguments.next().context("the number of messages is required")?.parse()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match path.as_str() {
        "append" => runtime.block_on(store(messages, End::Never)),
        "settle" => runtime.block_on(store(messages, End::Settled)),
        "engine" => runtime.block_on(engine(messages)),
        _ => bail!("there is no path {path:?}; the paths are append, settle and engine"),
    }
}

/// The operation on tasks after they were appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Never,
    Settled,
}

/// Runs the embedded store alone.
async fn store(messages: usize, end: End) -> anyhow::Result<()> {
    let ids = Arc::new(Ids::seeded(1));
    let store = SqliteStore::open_in_memory(Arc::clone(&ids))?;
    let now = store.now().await?;
    let environment = store.ensure_environment(OrgId(ids.next(now)), "bench".to_owned()).await?.id;
    store.create(Scope::of(environment), application(now), None).await?;
    store.create(Scope::of(environment), New { record: endpoint(now), max: ENDPOINTS_MAX }, None).await?;
    let session = SessionId(ids.next(now));
    let new = NewSession {
        id: session,
        node: "node".to_owned(),
        role: Role::All,
        version: "0".to_owned(),
        lease: HOUR,
        takes: None,
    };
    store.open_session(new).await?;
    let fast = FastPath { session, slots: Arc::new(Unbounded) };
    for first in (0..messages).step_by(BATCH) {
        let batch = first..(first + BATCH).min(messages);
        let messages = batch.map(|number| message(environment, MessageId(ids.next(now)), number, now)).collect();
        let appended = store.append(Append { fast: Some(fast.clone()), messages }).await?;
        if end == End::Settled {
            let leased = appended.iter().flat_map(leased);
            let batch: Vec<_> = leased.map(|leased| settlement(leased, session, ids.next(now), now)).collect();
            store.settle(batch.into()).await?;
        }
    }
    Ok(())
}

fn leased(appended: &Appended) -> Vec<&Leased> {
    match appended {
        Appended::Accepted { leased, .. } => leased.iter().map(|(leased, _)| leased).collect(),
        _ => Vec::new(),
    }
}

/// Runs the engine on the in-memory store.
async fn engine(messages: usize) -> anyhow::Result<()> {
    let now = Timestamp::from_millis(1_750_000_000_000);
    let started = std::time::Instant::now();
    let store = MemStore::new(Ids::seeded(1), Arc::new(move || now.plus(started.elapsed())));
    let environment = EnvironmentId(1);
    store.put_application(environment, APPLICATION);
    store.put_endpoint(environment, endpoint(now));
    let config = NodeConfig {
        dispatch: DispatchConfig { slots: 1000, slots_per_lane: 1000, poll_interval: HOUR },
        lease: HOUR,
        retry: RetryPolicy::new(vec![HOUR])?,
        name: NodeName { node: "node".to_owned(), version: "0".to_owned() },
        role: Role::All,
        wakeups: false,
        jobs: None,
        retention: Ages::default(),
        public_url: None,
        alert_interval: None,
        quota_interval: None,
    };
    let ids = Arc::new(Ids::seeded(2));
    let (store, transport) = (Arc::new(store), Some(Arc::new(AnswersAtOnce) as Arc<dyn Transport>));
    let engine = Node::start(store, transport, Arc::clone(&ids), Entropy::seeded(1), config).await?;
    for first in (0..messages).step_by(BATCH) {
        let batch = first..(first + BATCH).min(messages);
        let accepts = batch.map(|number| engine.accept(message(environment, MessageId(ids.next(now)), number, now)));
        futures_util::future::try_join_all(accepts).await?;
    }
    engine.drain(HOUR).await;
    Ok(())
}

/// A capacity without limits.
struct Unbounded;

impl Capacity for Unbounded {
    fn reserve(&self, _: GroupedLane) -> bool {
        true
    }

    fn plan_lease(&self, lanes: &[GroupedLane], most: usize) -> Vec<usize> {
        vec![most / lanes.len().max(1); lanes.len()]
    }

    fn release(&self, _: LaneId) {}
}

/// A receiver without a network, which answers at once.
struct AnswersAtOnce;

#[async_trait]
impl Transport for AnswersAtOnce {
    async fn send(&self, _: Request, _: &mut Exchange) -> Result<Reply, SendFailure> {
        Ok(Reply { status: 200, retry_after: None, wish: None, body: Bytes::from_static(b"ok") })
    }
}

fn application(now: Timestamp) -> Application {
    Application {
        id: APPLICATION,
        uid: None,
        name: "bench".to_owned(),
        throttle_rate: None,
        policy: None,
        metadata: Default::default(),
        created_at: now,
        updated_at: now,
        revision: 0,
    }
}

fn endpoint(now: Timestamp) -> Endpoint {
    Endpoint::new(EndpointId(Id::MIN), APPLICATION, "https://example.com/hook".to_owned(), now)
}

fn message(environment: EnvironmentId, id: MessageId, number: usize, now: Timestamp) -> NewMessage {
    let message = Message {
        id,
        application: APPLICATION,
        event_type: "bench.event".parse().expect("it is a name"),
        event_id: None,
        channels: Vec::new(),
        tags: Vec::new(),
        payload: Some(Bytes::from(vec![b'x'; 512])),
        created_at: now,
        rest: Rest::default(),
    };
    let key = DedupKey::request("POST", "/api/v1/app/bench/msg", &format!("auto_{number:032x}"), b"body");
    NewMessage { keys: vec![key], ..NewMessage::new(environment, message) }
}

fn settlement(leased: &Leased, session: SessionId, id: Id, now: Timestamp) -> Settlement {
    let task = &leased.task;
    let attempt = NewAttempt {
        holder: None,
        id: AttemptId(id),
        class: Class::Success,
        end: EndState::Succeeded,
        trigger: task.trigger,
        url: "https://example.com/hook".to_owned(),
        status: 200,
        reply: Bytes::from_static(b"ok"),
        started_at: now,
        duration: Duration::from_millis(1),
        exchange: None,
    };
    Settlement { row: NextRow::Gone, tries: task.tries + 1, attempt: Some(attempt), ..Settlement::of(task, session) }
}
