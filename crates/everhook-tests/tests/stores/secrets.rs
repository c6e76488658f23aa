//! Secrets of every kind, planted in a store and read back, for the tests of both SQL stores.

use bytes::Bytes;
use everhook_core::chat::{Chat, ChatKind, ChatSecret};
use everhook_core::chat_app::{ChatApp, ChatApps};
use everhook_core::endpoint::Endpoint;
use everhook_core::endpoint_auth::{BasicAuth, EndpointAuth, OauthClient, OauthMethod};
use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId, Id, TokenKeyId};
use everhook_core::limits::ENDPOINTS_MAX;
use everhook_core::operational::OPERATIONAL_APPLICATION;
use everhook_core::queue::{Queue, Target};
use everhook_core::scope::{AppScope, Scope};
use everhook_core::signing::{SigningKey, SigningKeys};
use everhook_core::token::{TOKEN_SECRET_BYTES, TokenKeyChange, TokenSecret};
use everhook_store::catalog::{Created, NewTokenKey, Order, Replaced, Slice};
use everhook_store::dedup::DedupKey;
use everhook_store::query;
use everhook_store::request::{RequestAnswer, RequestClaim, RequestEnd};
use everhook_store::resource::New;
use everhook_store::store::{Reads, Resources, Store};
use everhook_testkit::conformance::fixture::new_endpoint;

/// The part that all planted secrets have in common. Base64 of it is inside the signing keys.
pub(crate) const CANARY: &str = "canaryCANARYcanaryCANARYcanary";

pub(crate) struct Planted {
    pub(crate) environment: EnvironmentId,
    pub(crate) endpoint: Endpoint,
    operational: Endpoint,
    queue: Queue,
    chat_apps: ChatApps,
    token: NewTokenKey,
    answer: RequestAnswer,
    holder: Id,
}

/// Stores a secret of every kind.
pub(crate) async fn plant<S: Store>(
    store: &S,
    environment: EnvironmentId,
    application: ApplicationId,
    mut id: impl FnMut() -> Id,
) -> Planted {
    let scope = Scope::of(environment);
    let endpoint = create(store, scope, canary_endpoint(EndpointId(id()), application)).await;
    let operational = create(store, scope, canary_endpoint(EndpointId(id()), OPERATIONAL_APPLICATION)).await;
    let target = Target { url: format!("https://example.com/{CANARY}"), keys: canary_keys() };
    let queue = Queue { target: Some(target), ..Queue::new("email".parse().unwrap()) };
    let Replaced::Done(queue) = store.replace(scope, queue).await.unwrap() else { panic!("a queue exists by default") };
    let app = ChatApp {
        kind: ChatKind::Slack,
        client_id: None,
        secret: ChatSecret(CANARY.to_owned()),
        tenant_id: None,
        agent_id: None,
        api_url: None,
    };
    let apps = ChatApps { apps: vec![app], ..ChatApps::default() };
    let Replaced::Done(chat_apps) = store.replace(scope, apps).await.unwrap() else { panic!("they exist by default") };
    let mut secret = [0; TOKEN_SECRET_BYTES];
    secret[..CANARY.len()].copy_from_slice(CANARY.as_bytes());
    let token = NewTokenKey { id: TokenKeyId(id()), secret: TokenSecret(secret) };
    store.put_token_key(token.clone(), TokenKeyChange::Rotate).await.unwrap();
    let (holder, body) = (id(), Bytes::from(format!("{{\"key\":\"{CANARY}\"}}")));
    let answer = RequestAnswer { status: 201, body: Some(body) };
    assert_eq!(store.claim_request(scope, request(), holder).await.unwrap(), RequestClaim::Won);
    let end = RequestEnd { key: request(), holder, answer: Some(answer.clone()) };
    store.finish_request(scope, end).await.unwrap();
    Planted { environment, endpoint, operational, queue, chat_apps, token, answer, holder }
}

impl Planted {
    /// Reads every secret back.
    pub(crate) async fn check<S: Store>(&self, store: &S) {
        let scope = Scope::of(self.environment);
        for endpoint in [&self.endpoint, &self.operational] {
            let scope = AppScope { environment: self.environment, application: endpoint.application };
            let slice = Slice { after: None, order: Order::Ascending, limit: 100 };
            let found = store.read(query::Endpoints { scope, slice }).await.unwrap();
            assert!(found.contains(endpoint), "{found:?}");
        }
        let queue = store.read(query::FindQueue { scope, name: self.queue.name.clone() }).await.unwrap();
        assert_eq!(queue.as_ref(), Some(&self.queue));
        let chat_apps = store.read(query::FindChatApps { scope }).await.unwrap();
        assert_eq!(chat_apps.as_ref(), Some(&self.chat_apps));
        let tokens = store.read(query::TokenKeys {}).await.unwrap();
        assert!(tokens.iter().any(|token| token.id == self.token.id && token.secret == self.token.secret));
        let other = Id::from_bytes([9; 20]);
        assert_ne!(other, self.holder);
        let claim = store.claim_request(scope, request(), other).await.unwrap();
        assert_eq!(claim, RequestClaim::Answered(self.answer.clone()));
    }
}

/// Whether bytes contain a planted secret, as text, as base64, or as the hexadecimal text of a `bytea`.
pub(crate) fn has_canary(bytes: &[u8]) -> bool {
    let hex: String = CANARY.bytes().map(|byte| format!("{byte:02x}")).collect();
    let base64 = canary_keys().current.expose();
    let forms = [CANARY.to_owned(), hex, base64.trim_start_matches("whsec_").to_owned()];
    forms.iter().any(|form| bytes.windows(form.len()).any(|part| part == form.as_bytes()))
}

async fn create<S: Store>(store: &S, scope: Scope, endpoint: Endpoint) -> Endpoint {
    let created = store.create(scope, New { record: endpoint, max: ENDPOINTS_MAX }, None).await.unwrap();
    let Created::New(endpoint) = created else { panic!("{created:?}") };
    endpoint
}

fn canary_keys() -> SigningKeys {
    SigningKeys::new(SigningKey::Symmetric(CANARY.as_bytes().to_vec()))
}

fn canary_endpoint(id: EndpointId, application: ApplicationId) -> Endpoint {
    let text = || CANARY.to_owned();
    let oauth = OauthClient {
        token_url: format!("https://example.com/{CANARY}"),
        auth_method: OauthMethod::ClientSecretPost,
        client_id: "client".to_owned(),
        client_secret: text(),
        scopes: Vec::new(),
        extra_params: [("audience".to_owned(), text())].into(),
        extra_headers: [("x-api-key".to_owned(), text())].into(),
    };
    let auth = EndpointAuth {
        basic: Some(BasicAuth { username: "me".to_owned(), password: text() }),
        oauth: Some(oauth),
        identity: Some(text()),
        ca: Some(text()),
    };
    let chat = Chat { secret: Some(ChatSecret(text())), ..Chat::new(ChatKind::Feishu) };
    Endpoint {
        url: format!("https://open.feishu.cn/open-apis/bot/v2/hook/{CANARY}"),
        headers: [("x-token".to_owned(), text())].into(),
        auth: Some(auth.into()),
        chat: Some(chat.into()),
        keys: canary_keys(),
        ..new_endpoint(id, application)
    }
}

fn request() -> DedupKey {
    DedupKey::request("POST", "/api/v1/auth/app-portal-access", "key", b"body")
}
