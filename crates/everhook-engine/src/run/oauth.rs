//! Access tokens for endpoints with OAuth: fetched with the node's transport, so that the egress rules apply, and kept
//! until they expire.
//!
//! Each node has its own tokens, in memory only. Deliveries that need the same token at once wait for one request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use everhook_core::endpoint_auth::{OauthClient, Token};
use everhook_core::exchange::Exchange;
use everhook_core::id::Id;
use everhook_core::outcome::{Class, Reply, SendFailure};
use everhook_sender::Request;
use http::Method;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use tokio::sync::OnceCell;

use crate::node::Node;
use crate::run::outbound::{self, Sent, header, internal};
use crate::session::Session;

/// Tokens in memory. Others are fetched again.
const TOKENS_MAX: usize = 4096;

#[derive(Default)]
pub(crate) struct OauthTokens {
    known: Mutex<HashMap<Id, Arc<OnceCell<Kept>>>>,
}

struct Kept {
    authorization: HeaderValue,
    /// On the node's monotonic clock.
    until: Duration,
}

impl OauthTokens {
    /// Returns the header `Authorization` for requests of `client`; fetches a token if none is left. `Err` is the end
    /// of the attempt.
    pub(crate) async fn authorization(
        &self,
        node: &Node,
        client: &OauthClient,
        session: &Session,
    ) -> Result<HeaderValue, Sent> {
        let cell = self.cell(client.id(), node.clock.elapsed());
        // One caller fetches, the others wait. If it fails or is dropped, the next one tries.
        let kept = cell.get_or_try_init(|| fetch(node, client, session)).await?;
        Ok(kept.authorization.clone())
    }

    /// Drops the token of `client`, because a receiver has refused it.
    pub(crate) fn forget(&self, client: &OauthClient) {
        self.lock().remove(&client.id());
    }

    fn cell(&self, id: Id, now: Duration) -> Arc<OnceCell<Kept>> {
        let is_fresh = |cell: &OnceCell<Kept>| cell.get().is_none_or(|kept| now < kept.until);
        let mut known = self.lock();
        if let Some(cell) = known.get(&id).filter(|cell| is_fresh(cell)) {
            return Arc::clone(cell);
        }
        if known.len() >= TOKENS_MAX {
            known.retain(|_, cell| is_fresh(cell));
        }
        if known.len() >= TOKENS_MAX {
            known.clear();
        }
        let cell = Arc::<OnceCell<Kept>>::default();
        known.insert(id, Arc::clone(&cell));
        cell
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Id, Arc<OnceCell<Kept>>>> {
        self.known.lock().expect("nothing panics while it holds this lock")
    }
}

async fn fetch(node: &Node, client: &OauthClient, session: &Session) -> Result<Kept, Sent> {
    let failed = |failure: SendFailure| Sent::Answered(Err(failure));
    let headers = headers(node, client).map_err(failed)?;
    let body = Bytes::from(client.form());
    let request =
        Request { method: Method::POST, url: client.token_url.clone(), headers, body, patience: None, auth: None };
    let reply = match outbound::send(node, request, session, &mut Exchange::default()).await {
        Sent::Answered(answer) => answer.map_err(|failure| failed(of_token(failure)))?,
        ended => return Err(ended),
    };
    let token = read(&reply).map_err(failed)?;
    let authorization = header(token.authorization).map_err(failed)?;
    Ok(Kept { authorization, until: node.clock.elapsed() + token.life })
}

fn headers(node: &Node, client: &OauthClient) -> Result<HeaderMap, SendFailure> {
    let mut headers = HeaderMap::new();
    for (name, value) in &client.extra_headers {
        let bad = || internal(format!("header {name:?} of the token request is not a valid HTTP header: change it"));
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
        headers.insert(name, HeaderValue::from_str(value).map_err(|_| bad())?);
    }
    if let Some(authorization) = client.authorization() {
        headers.insert(AUTHORIZATION, header(authorization)?);
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    headers.insert(USER_AGENT, node.user_agent.clone());
    Ok(headers)
}

/// The issuer's own words are not shown: they may repeat the client's secret.
fn read(reply: &Reply) -> Result<Token, SendFailure> {
    match reply.status {
        200..=299 => Token::read(&reply.body).map_err(|error| SendFailure::new(Class::Status, error.to_string())),
        status => {
            Err(SendFailure::new(Class::Status, format!("the OAuth token endpoint answered with status {status}")))
        }
    }
}

fn of_token(failure: SendFailure) -> SendFailure {
    SendFailure { detail: format!("could not get an OAuth token: {}", failure.detail), ..failure }
}
