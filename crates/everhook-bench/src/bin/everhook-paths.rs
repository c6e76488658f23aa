//! Walks the hot paths a given number of times and nothing else, for `cargo xtask callgrind` to count instructions on.
//!
//! `everhook-paths <path> <messages>`, where the path is one of: `append` (the embedded store, in memory, takes messages in
//! batches), `settle` (the same, and ends them in batches), `engine` (the engine accepts, sends to a receiver that answers at
//! once, and settles, on the store in memory). What a message costs is the difference between two numbers of messages.

#![expect(clippy::disallowed_methods, reason = "the store in memory is given a clock")]

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use async_trait::async_trait;
use bytes::Bytes;
use everhook_core::application::Application;
use everhook_core::dispatch::DispatchConfig;
use everhook_core::endpoint::{Endpoint, EndpointState};
use everhook_core::id::{ApplicationId, AttemptId, EndpointId, EnvironmentId, Id, LaneId, MessageId, OrgId, SessionId};
use everhook_core::lifecycle::{EndState, NextRow};
use everhook_core::limits::ENDPOINTS_MAX;
use everhook_core::message::{Message, Rest};
use everhook_core::outcome::{Class, Reply, SendFailure};
use everhook_core::retry::RetryPolicy;
use everhook_core::role::Role;
use everhook_core::scope::Scope;
use everhook_core::signing::SigningKeys;
use everhook_core::time::Timestamp;
use everhook_engine::entropy::Entropy;
use everhook_engine::jobs::maintenance::Ages;
use everhook_engine::node::{Node, NodeConfig, Parts};
use everhook_engine::session::NodeName;
use everhook_engine::transport::Transport;
use everhook_sender::Request;
use everhook_sqlite::SqliteStore;
use everhook_store::capacity::Capacity;
use everhook_store::dedup::DedupKey;
use everhook_store::ids::Ids;
use everhook_store::lease::{Append, Appended, FastPath, Leased, NewAttempt, NewMessage, NewSession, Settlement};
use everhook_store::resource::NewEndpoint;
use everhook_store::store::{Resources, Store};
use everhook_testkit::mem::MemStore;

/// Messages of one transaction, and requests under way at once.
const BATCH: usize = 50;
const HOUR: Duration = Duration::from_secs(3600);
const APPLICATION: ApplicationId = ApplicationId(Id::MIN);

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().context("which path: append, settle or engine")?;
    let messages = arguments.next().context("how many messages")?.parse()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match path.as_str() {
        "append" => runtime.block_on(store(messages, End::Never)),
        "settle" => runtime.block_on(store(messages, End::Settled)),
        "engine" => runtime.block_on(engine(messages)),
        _ => bail!("there is no path {path:?}, but append, settle and engine"),
    }
}

/// What happens to tasks after they were appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Never,
    Settled,
}

/// The embedded store alone.
async fn store(messages: usize, end: End) -> anyhow::Result<()> {
    let ids = Arc::new(Ids::seeded(1));
    let store = SqliteStore::open_in_memory(Arc::clone(&ids))?;
    let now = store.now().await?;
    let environment = store.ensure_environment(OrgId(ids.next(now)), "bench".to_owned()).await?.id;
    store.create(Scope::of(environment), application(now), None).await?;
    store.create(Scope::of(environment), NewEndpoint { endpoint: endpoint(now), max: ENDPOINTS_MAX }, None).await?;
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

/// The engine on the store in memory.
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
    };
    let ids = Arc::new(Ids::seeded(2));
    let parts = Parts {
        store: Arc::new(store),
        transport: Some(Arc::new(AnswersAtOnce)),
        ids: Arc::clone(&ids),
        entropy: Entropy::seeded(1),
    };
    let engine = Node::start(parts, config).await?;
    for first in (0..messages).step_by(BATCH) {
        let batch = first..(first + BATCH).min(messages);
        let accepts = batch.map(|number| engine.accept(message(environment, MessageId(ids.next(now)), number, now)));
        futures_util::future::try_join_all(accepts).await?;
    }
    engine.drain(HOUR).await;
    Ok(())
}

/// A node that always has room.
struct Unbounded;

impl Capacity for Unbounded {
    fn reserve(&self, _: LaneId) -> bool {
        true
    }

    fn release(&self, _: LaneId) {}
}

/// A receiver without a network.
struct AnswersAtOnce;

#[async_trait]
impl Transport for AnswersAtOnce {
    async fn send(&self, _: Request) -> Result<Reply, SendFailure> {
        Ok(Reply { status: 200, retry_after: None, body: Bytes::from_static(b"ok") })
    }
}

fn application(now: Timestamp) -> Application {
    Application {
        id: APPLICATION,
        uid: None,
        name: "bench".to_owned(),
        throttle_rate: None,
        metadata: Default::default(),
        created_at: now,
        updated_at: now,
        revision: 0,
    }
}

fn endpoint(now: Timestamp) -> Endpoint {
    Endpoint {
        id: EndpointId(Id::MIN),
        application: APPLICATION,
        uid: None,
        url: "https://example.com/hook".to_owned(),
        description: String::new(),
        state: EndpointState::Enabled,
        event_types: None,
        channels: None,
        headers: Default::default(),
        throttle_rate: None,
        metadata: Default::default(),
        version: 1,
        keys: SigningKeys::default(),
        created_at: now,
        updated_at: now,
        revision: 0,
    }
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
    };
    Settlement {
        key: task.key,
        kind: task.kind,
        lane: task.lane,
        batch: task.batch,
        session,
        epoch: task.epoch,
        row: NextRow::Gone,
        tries: task.tries + 1,
        crashes: task.crashes,
        attempt: Some(attempt),
        hold_lane: None,
        stop_lane: false,
        result: None,
    }
}
