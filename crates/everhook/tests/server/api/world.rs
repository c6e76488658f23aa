//! A server of its own for each test, and requests that read like what a client sends.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use everhook_api::{ApiConfig, ShownSetting};
use everhook_core::api_key::{ApiKey, KEY_RANDOM_BYTES, KeyAccess};
use everhook_core::dispatch::DispatchConfig;
use everhook_core::exchange::StoredExchange;
use everhook_core::id::{AttemptId, DEFAULT_ORG, KeyId, OrgId, SessionId};
use everhook_core::lifecycle::{EndState, NextRow};
use everhook_core::limits::ENDPOINTS_MAX;
use everhook_core::outcome::Class;
use everhook_core::retry::RetryPolicy;
use everhook_core::role::Role;
use everhook_core::signing::SignatureKind;
use everhook_core::time::Timestamp;
use everhook_engine::config::JobsConfig;
use everhook_engine::config::NodeConfig;
use everhook_engine::entropy::Entropy;
use everhook_engine::node::Node;
use everhook_engine::retention::Ages;
use everhook_engine::session::NodeName;
use everhook_sender::egress::Egress;
use everhook_sqlite::SqliteStore;
use everhook_store::catalog::NewKey;
use everhook_store::error::StoreError;
use everhook_store::ids::Ids;
use everhook_store::lease::{Append, Appended, LeaseAsk, Leased, NewAttempt, NewSession, Renewed, Settlement};
use everhook_store::store::{Layer, Layered, Op, Store};
use everhook_testkit::conformance::fixture::exchange;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt;
use jsonwebtoken::{EncodingKey, Header};
use serde_json::Value;
use tower::ServiceExt;

pub(crate) const SECRET: &str = "the secret that tokens are signed with";
/// The name of the server in requests.
pub(crate) const HOST: &str = "hooks.example:8071";
pub(crate) const OTHER_ORG: &str = "org_23rb8YdGqMT0qIzpgGwdXfHirMv";

/// A server with two environments and a key for each.
pub(crate) struct World {
    pub(crate) store: Arc<SqliteStore>,
    scripted: Arc<Layered<SqliteStore, Script>>,
    pub(crate) node: Arc<Node>,
    pub(crate) router: Router,
    pub(crate) key: String,
    pub(crate) other_key: String,
    pub(crate) admin_key: String,
    pub(crate) session: SessionId,
}

/// Parts that a test can switch off.
pub(crate) struct Switches {
    pub(crate) jobs: bool,
    pub(crate) schedules: bool,
    pub(crate) signature: SignatureKind,
    pub(crate) endpoints_max: usize,
    pub(crate) auth_failures: u32,
    pub(crate) public_url: Option<&'static str>,
}

impl Default for Switches {
    fn default() -> Switches {
        Switches {
            jobs: true,
            schedules: true,
            signature: SignatureKind::Hmac256,
            endpoints_max: ENDPOINTS_MAX,
            auth_failures: 0,
            public_url: None,
        }
    }
}

/// The store as the node sees it: its clock is ahead by the time that a test let pass, and an append can be replaced.
#[derive(Default)]
pub(crate) struct Script {
    ahead_us: AtomicI64,
    next_append: Mutex<Option<Result<Appended, StoreError>>>,
    hangs: AtomicBool,
}

impl Script {
    /// Answers the next append of one message, which does not reach the store.
    pub(crate) fn answer_append(&self, answer: Result<Appended, StoreError>) {
        *self.next_append.lock().unwrap() = Some(answer);
    }

    /// Appends get no answer any more.
    pub(crate) fn hang(&self) {
        self.hangs.store(true, Ordering::Relaxed);
    }

    fn ahead(&self, now: Timestamp) -> Timestamp {
        Timestamp::from_micros(now.as_micros() + self.ahead_us.load(Ordering::Relaxed))
    }
}

impl Layer for Script {
    async fn now(&self, store: &(impl Store + ?Sized)) -> Result<Timestamp, StoreError> {
        Ok(self.ahead(store.now().await?))
    }

    async fn open_session(&self, store: &(impl Store + ?Sized), new: NewSession) -> Result<Timestamp, StoreError> {
        Ok(self.ahead(store.open_session(new).await?))
    }

    async fn renew_session(&self, store: &(impl Store + ?Sized), id: SessionId) -> Result<Renewed, StoreError> {
        Ok(match store.renew_session(id).await? {
            Renewed::Open(now) => Renewed::Open(self.ahead(now)),
            Renewed::Moved(now) => Renewed::Moved(self.ahead(now)),
            Renewed::Closed => Renewed::Closed,
        })
    }

    async fn append(&self, store: &(impl Store + ?Sized), append: Append) -> Result<Vec<Appended>, StoreError> {
        if self.hangs.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        let scripted = self.next_append.lock().unwrap().take();
        match scripted {
            Some(answer) => Ok(vec![answer?]),
            None => store.append(append).await,
        }
    }
}

/// Starts a node that sends nothing and starts no schedules by itself.
async fn start(store: Arc<dyn Store>, ids: &Arc<Ids>, role: Role, jobs: bool) -> Arc<Node> {
    let config = NodeConfig {
        dispatch: DispatchConfig { slots: 1, slots_per_lane: 1, poll_interval: Duration::from_secs(3600) },
        lease: Duration::from_secs(20),
        retry: RetryPolicy::new(Vec::new()).unwrap(),
        name: NodeName { node: "node".to_owned(), version: "0".to_owned() },
        role,
        wakeups: false,
        jobs: Some(JobsConfig { enabled: jobs, schedules: false, ..JobsConfig::default() }),
        retention: Ages::default(),
        public_url: None,
        alert_interval: None,
        quota_interval: Some(Duration::from_millis(20)),
    };
    Node::start(store, None, Arc::clone(ids), Entropy::seeded(1), config).await.unwrap()
}

impl World {
    pub(crate) async fn new() -> World {
        World::with_secret(Some(SECRET)).await
    }

    /// A world with the application `acme`.
    pub(crate) async fn with_application() -> World {
        let world = World::new().await;
        world.application("acme").await;
        world
    }

    /// A world with the application `acme` and its endpoint `main`.
    pub(crate) async fn with_endpoint() -> World {
        let world = World::with_application().await;
        world.endpoint("acme", "main").await;
        world
    }

    pub(crate) async fn with_secret(secret: Option<&str>) -> World {
        World::with(secret, Role::All, Switches::default()).await
    }

    pub(crate) async fn with_role(role: Role) -> World {
        World::with(Some(SECRET), role, Switches::default()).await
    }

    pub(crate) async fn with_switches(switches: Switches) -> World {
        World::with(Some(SECRET), Role::All, switches).await
    }

    async fn with(secret: Option<&str>, role: Role, switches: Switches) -> World {
        let ids = Arc::new(Ids::seeded(1));
        let store = Arc::new(SqliteStore::open_in_memory(Arc::clone(&ids)).unwrap());
        let session = SessionId(ids.next(store.now().await.unwrap()));
        let (node_name, version) = ("test".to_owned(), "0".to_owned());
        let lease = Duration::from_secs(20);
        let session_row = NewSession { id: session, node: node_name, role: Role::All, version, lease, takes: None };
        store.open_session(session_row).await.unwrap();
        let scripted = Arc::new(Layered { store: Arc::clone(&store), layer: Script::default() });
        let node = start(Arc::clone(&scripted) as _, &ids, role, switches.jobs).await;
        // Documentation addresses are refused by default; tests need some address that is not.
        let egress = Egress::new(vec!["127.0.0.0/8".parse().unwrap()], false);
        let config = ApiConfig {
            jwt_secret: secret.map(str::to_owned),
            public_url: switches.public_url.map(str::to_owned),
            tls: false,
            cors_origins: vec!["*".to_owned()],
            embed_origins: vec!["https://app.example.com".to_owned()],
            chat_hosts: vec!["127.0.0.1".to_owned()],
            default_signature: switches.signature,
            egress,
            version: "1.2.3",
            outboxes: Vec::new(),
            jobs: switches.jobs,
            schedules: switches.schedules,
            endpoints_max: switches.endpoints_max,
            auth_failures_per_minute: switches.auth_failures,
            delivery_timeout: Duration::from_secs(15),
            settings: vec![ShownSetting { name: "slots".to_owned(), value: 2000.into(), source: "default".to_owned() }],
        };
        let router = everhook_api::router(Arc::clone(&node), config);
        let mut world = World {
            store,
            scripted,
            node,
            router,
            key: String::new(),
            other_key: String::new(),
            admin_key: String::new(),
            session,
        };
        world.key = world.create_key(1, DEFAULT_ORG, "default").await;
        world.other_key = world.create_key(2, OTHER_ORG, "other").await;
        world.admin_key = world.keep_key(3, KeyAccess::ADMIN).await;
        world
    }

    /// Lets time pass for the node. The clock of the store itself goes on as before.
    pub(crate) async fn pass(&self, span: Duration) {
        self.script().ahead_us.fetch_add(everhook_core::time::micros(span), Ordering::Relaxed);
        tokio::time::pause();
        tokio::time::advance(span).await;
        tokio::time::resume();
    }

    /// The store as the node sees it.
    pub(crate) fn script(&self) -> &Script {
        &self.scripted.layer
    }

    /// Whether the metrics of the node have this line.
    pub(crate) fn counts(&self, line: &str) -> bool {
        self.node.metrics().lines().any(|counted| counted == line)
    }

    async fn create_key(&self, seed: u8, org: &str, name: &str) -> String {
        let org: OrgId = org.parse().unwrap();
        let environment = self.store.ensure_environment(org, name.to_owned()).await.unwrap();
        self.keep_key(seed, KeyAccess::operate(environment.id)).await
    }

    pub(crate) async fn keep_key(&self, seed: u8, access: KeyAccess) -> String {
        let key = ApiKey::generate([seed; KEY_RANDOM_BYTES]);
        let id = KeyId(self.node.new_id());
        let (hash, hint, name) = (key.hash(), key.hint(), format!("test {seed}"));
        self.store.create_key(NewKey { id, hash, hint, name, access, expires_at: None }).await.unwrap();
        key.expose().to_owned()
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call(Call::new(Method::GET, path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Answer {
        self.call(Call::new(Method::POST, path).body(body)).await
    }

    pub(crate) async fn put(&self, path: &str, body: &str) -> Answer {
        self.call(Call::new(Method::PUT, path).body(body)).await
    }

    pub(crate) async fn patch(&self, path: &str, body: &str) -> Answer {
        self.call(Call::new(Method::PATCH, path).body(body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.call(Call::new(Method::DELETE, path)).await
    }

    pub(crate) async fn call(&self, call: Call) -> Answer {
        let path =
            if call.path.starts_with("/!") { call.path[2..].to_owned() } else { format!("/api/v1{}", call.path) };
        let mut request = Request::builder().method(call.method).uri(path);
        if !call.headers.contains_key("authorization") {
            request = request.header("authorization", format!("Bearer {}", self.key));
        }
        if !call.headers.contains_key("host") {
            request = request.header("host", HOST);
        }
        for (name, value) in &call.headers {
            if !value.is_empty() {
                request = request.header(*name, value);
            }
        }
        let response = self.router.clone().oneshot(request.body(Body::from(call.body)).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let body = String::from_utf8(body.to_vec()).unwrap();
        Answer { status: parts.status, headers: parts.headers, body }
    }

    /// Creates an application and answers its id.
    pub(crate) async fn application(&self, uid: &str) -> String {
        self.post("/app", &format!(r#"{{"name": "An application", "uid": "{uid}"}}"#)).await.created()
    }

    /// Creates an endpoint and answers its id.
    pub(crate) async fn endpoint(&self, application: &str, uid: &str) -> String {
        let body = format!(r#"{{"url": "http://127.0.0.1:9/{uid}", "uid": "{uid}"}}"#);
        self.post(&format!("/app/{application}/endpoint"), &body).await.created()
    }

    /// Creates a message and answers its id.
    pub(crate) async fn message(&self, application: &str, event_type: &str) -> String {
        let body = format!(r#"{{"eventType": "{event_type}", "payload": {{"n": 1}}}}"#);
        self.post(&format!("/app/{application}/msg"), &body).await.created()
    }

    /// Plays the engine: leases everything that is due and settles it as if the receiver had answered so.
    pub(crate) async fn deliver(&self, status: u16, reply: &'static [u8], row: NextRow) -> usize {
        let tasks = self.lease().await;
        let batch: Vec<Settlement> = tasks.iter().map(|leased| self.settlement(leased, status, reply, row)).collect();
        self.store.settle(batch.clone().into()).await.unwrap();
        batch.len()
    }

    /// Leases everything that is due.
    pub(crate) async fn lease(&self) -> Vec<Leased> {
        let ask = LeaseAsk { per_lane: 100, ..LeaseAsk::deliveries(self.session, 100) };
        self.store.lease(ask).await.unwrap().tasks
    }

    fn settlement(&self, leased: &Leased, status: u16, reply: &'static [u8], row: NextRow) -> Settlement {
        let is_success = (200..300).contains(&status);
        let (class, end, row) = match (leased.endpoint(), row) {
            (None, _) => (Class::Cancelled, EndState::Cancelled, NextRow::Gone),
            (Some(_), NextRow::Gone) if is_success => (Class::Success, EndState::Succeeded, row),
            (Some(_), NextRow::Gone | NextRow::Dead) => (Class::Status, EndState::Dead, row),
            (Some(_), NextRow::Pending { .. }) => (Class::Status, EndState::Open, row),
        };
        let attempt = NewAttempt {
            holder: None,
            id: AttemptId(self.node.new_id()),
            class,
            end,
            trigger: leased.task.trigger,
            url: leased.endpoint().map_or(String::new(), |endpoint| endpoint.url.clone()),
            status,
            reply: Bytes::from_static(reply),
            started_at: self.node.now(),
            duration: Duration::from_millis(12),
            exchange: StoredExchange::of(&exchange()).filter(|_| is_success),
        };
        let tries = leased.task.tries + 1;
        Settlement { row, tries, crashes: 0, attempt: Some(attempt), ..Settlement::of(&leased.task, self.session) }
    }

    /// A token with these claims.
    pub(crate) fn token(claims: &Value) -> String {
        jsonwebtoken::encode(&Header::default(), claims, &EncodingKey::from_secret(SECRET.as_bytes())).unwrap()
    }
}

/// A store that cannot be reached.
pub(crate) fn unavailable() -> StoreError {
    StoreError::Unavailable { op: Op::Append, source: "the cable was pulled".into() }
}

/// A request.
pub(crate) struct Call {
    method: Method,
    path: String,
    headers: BTreeMap<&'static str, String>,
    body: Vec<u8>,
}

impl Call {
    /// The path is under `/api/v1`, unless it begins with `/!`.
    pub(crate) fn new(method: Method, path: &str) -> Call {
        Call { method, path: path.to_owned(), headers: BTreeMap::new(), body: Vec::new() }
    }

    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Call {
        self.headers.insert(name, value.to_owned());
        self
    }

    pub(crate) fn bearer(self, token: &str) -> Call {
        self.header("authorization", &format!("Bearer {token}"))
    }

    pub(crate) fn anonymous(self) -> Call {
        self.header("authorization", "")
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Call {
        self.body = body.into();
        self
    }
}

/// The reply to a request.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("not JSON: {self}"))
    }

    /// The id of what was created.
    #[track_caller]
    pub(crate) fn created(&self) -> String {
        assert!(self.status.is_success(), "{self}");
        self.text("/id")
    }

    /// The string at a place in the body.
    #[track_caller]
    pub(crate) fn text(&self, pointer: &str) -> String {
        let json = self.json();
        json.pointer(pointer).and_then(Value::as_str).unwrap_or_else(|| panic!("no {pointer}: {self}")).to_owned()
    }

    /// One member of each item of a list.
    #[track_caller]
    pub(crate) fn each(&self, member: &str) -> Vec<String> {
        let json = self.json();
        let data = json["data"].as_array().unwrap_or_else(|| panic!("no list: {self}"));
        data.iter().map(|item| item[member].to_string().trim_matches('"').to_owned()).collect()
    }

    /// The code of a failure.
    #[track_caller]
    pub(crate) fn code(&self) -> (u16, String) {
        (self.status.as_u16(), self.text("/code"))
    }
}

/// Status and body, with ids and times that differ from run to run made equal.
impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.status.as_u16())?;
        if !self.body.is_empty() {
            write!(f, " {}", mask(&self.body))?;
        }
        Ok(())
    }
}

fn mask(text: &str) -> String {
    let mut seen = Vec::new();
    let mut masked = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some((prefix, id)) = leading_id(rest) {
            let number = seen.iter().position(|known| *known == id).unwrap_or_else(|| {
                seen.push(id);
                seen.len() - 1
            });
            masked.push_str(&format!("{prefix}#{}", number + 1));
            rest = &rest[prefix.len() + id.len()..];
        } else if let Some(length) = leading_time(rest) {
            masked.push_str("<time>");
            rest = &rest[length..];
        } else {
            masked.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    masked
}

fn leading_id(text: &str) -> Option<(&'static str, &str)> {
    let prefix =
        ["app_", "ep_", "msg_", "atmpt_", "org_", "sess_", "job_", "qtask_", "batch_", "sched_", "integ_", "alert_"]
            .into_iter()
            .find(|prefix| text.starts_with(*prefix))?;
    let id = text.get(prefix.len()..prefix.len() + 27)?;
    id.bytes().all(|byte| byte.is_ascii_alphanumeric()).then_some((prefix, id))
}

fn leading_time(text: &str) -> Option<usize> {
    let time = text.get(..27)?;
    (time.as_bytes()[10] == b'T' && time.parse::<Timestamp>().is_ok()).then_some(27)
}
