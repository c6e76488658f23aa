//! A client of a running server's API, for all commands except serve, migrate, key and config.
//!
//! `EVERHOOK_URL` and `EVERHOOK_KEY` name the server and the key. Errors say what to do when the server is unreachable
//! or refuses. Deliveries do not use this client: the sender restricts their addresses, while here the operator chooses
//! one address.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use bytes::Bytes;
use everhook_core::name::Name;
use http::header::{AUTHORIZATION, HOST, USER_AGENT};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use rustls_platform_verifier::BuilderVerifierExt;
use serde::Serialize;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::environment;

const DEFAULT_URL: &str = "http://127.0.0.1:8071";
/// Time limit of one request.
const DEADLINE: Duration = Duration::from_secs(30);
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

pub(crate) struct Remote {
    url: Uri,
    key: Option<String>,
}

impl Remote {
    pub(crate) fn from_environment() -> anyhow::Result<Remote> {
        let environment::Remote { url, key } = environment::remote();
        Remote::new(url.as_deref().unwrap_or(DEFAULT_URL), key)
    }

    fn new(text: &str, key: Option<String>) -> anyhow::Result<Remote> {
        let url = text
            .parse::<Uri>()
            .ok()
            .filter(|url| url.host().is_some() && matches!(url.scheme_str(), Some("http" | "https")));
        let url = url.with_context(|| format!("invalid EVERHOOK_URL {text:?}: use the form {DEFAULT_URL}"))?;
        Ok(Remote { url, key })
    }

    pub(crate) async fn get(&self, path: &str) -> anyhow::Result<Value> {
        let body = self.call(Method::GET, path, None).await?;
        serde_json::from_slice(&body).with_context(|| {
            format!("{} did not answer with JSON: set EVERHOOK_URL to the address of an Everhook server", self.url)
        })
    }

    /// Reads every page of a list.
    pub(crate) async fn get_all(&self, path: &str, page: usize) -> anyhow::Result<Vec<Value>> {
        self.get_some(path, page, usize::MAX).await
    }

    /// Reads the first `limit` items of a list, page by page.
    pub(crate) async fn get_some(&self, path: &str, page: usize, limit: usize) -> anyhow::Result<Vec<Value>> {
        let mark = if path.contains('?') { '&' } else { '?' };
        let (mut all, mut iterator) = (Vec::new(), String::new());
        loop {
            let wanted = page.min(limit - all.len());
            let mut answer = self.get(&format!("{path}{mark}limit={wanted}{iterator}")).await?;
            if let Value::Array(data) = answer["data"].take() {
                all.extend(data);
            }
            match answer["iterator"].as_str() {
                Some(last) if answer["done"] == false && all.len() < limit => iterator = format!("&iterator={last}"),
                _ => return Ok(all),
            }
        }
    }

    pub(crate) async fn delete(&self, path: &str) -> anyhow::Result<()> {
        self.call(Method::DELETE, path, None).await.map(drop)
    }

    pub(crate) async fn patch(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        let body = self.call(Method::PATCH, path, Some(body.to_string())).await?;
        Ok(serde_json::from_slice(&body).unwrap_or_default())
    }

    pub(crate) async fn post(&self, path: &str) -> anyhow::Result<Value> {
        let body = self.call(Method::POST, path, None).await?;
        Ok(serde_json::from_slice(&body).unwrap_or_default())
    }

    pub(crate) async fn post_body(&self, path: &str, body: &impl Serialize) -> anyhow::Result<Value> {
        let body = serde_json::to_string(body).context("could not serialise the request")?;
        let answer = self.call(Method::POST, path, Some(body)).await?;
        Ok(serde_json::from_slice(&answer).unwrap_or_default())
    }

    async fn call(&self, method: Method, path: &str, body: Option<String>) -> anyhow::Result<Bytes> {
        let called = tokio::time::timeout(DEADLINE, self.answer(method, path, body)).await;
        let (status, body) = called.map_err(|_| anyhow!("{} did not answer within {DEADLINE:?}", self.url))??;
        if status.is_success() { Ok(body) } else { Err(self.refusal(status, &body)) }
    }

    /// Turns an error reply into a message with a remedy.
    fn refusal(&self, status: StatusCode, body: &[u8]) -> anyhow::Error {
        let problem = serde_json::from_slice::<Value>(body).unwrap_or_default();
        let detail = problem["detail"].as_str().map_or_else(|| rules(&problem), str::to_owned);
        let url = &self.url;
        match (status, &self.key) {
            (StatusCode::UNAUTHORIZED, None) => {
                anyhow!("{url} requires a key: set EVERHOOK_KEY (`everhook key create` on the server creates one)")
            }
            (StatusCode::UNAUTHORIZED, Some(_)) => {
                anyhow!("{url} does not accept the key in EVERHOOK_KEY: set it to an active key (`everhook key list`)")
            }
            (StatusCode::NOT_FOUND, _) => anyhow!("{detail} (asked {url})"),
            (StatusCode::UNPROCESSABLE_ENTITY, _) => anyhow!("{url} refused the request: {detail}"),
            (StatusCode::FORBIDDEN, _) => {
                anyhow!("the key in EVERHOOK_KEY is not allowed to do this at {url}. {detail}")
            }
            _ => anyhow!("{url} answered {status}: {detail}"),
        }
    }

    async fn answer(&self, method: Method, path: &str, body: Option<String>) -> anyhow::Result<(StatusCode, Bytes)> {
        let response = self.send(self.request(method, path, body)?).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| anyhow!("the reply of {} is incomplete: {error}", self.url))?;
        Ok((status, body.to_bytes()))
    }

    fn request(&self, method: Method, path: &str, body: Option<String>) -> anyhow::Result<Request<Full<Bytes>>> {
        let authority = self.url.authority().map_or("", |authority| authority.as_str());
        let base = self.url.path().trim_end_matches('/');
        let request = Request::builder()
            .method(method)
            .uri(format!("{base}/api/v1{path}"))
            .header(HOST, authority)
            .header(USER_AGENT, concat!("Everhook/", env!("CARGO_PKG_VERSION")));
        let request = match &self.key {
            Some(key) => request.header(AUTHORIZATION, format!("Bearer {key}")),
            None => request,
        };
        let body = body.map_or_else(Bytes::new, Bytes::from);
        request.body(Full::new(body)).context("EVERHOOK_KEY contains invalid characters: copy the key again")
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> anyhow::Result<Response<Incoming>> {
        let host = self.url.host().unwrap_or_default().trim_matches(['[', ']']);
        let is_encrypted = self.url.scheme_str() == Some("https");
        let port = self.url.port_u16().unwrap_or(if is_encrypted { 443 } else { 80 });
        let unreachable =
            || format!("could not reach {}: start the server, or set EVERHOOK_URL to its address", self.url);
        let stream = TcpStream::connect((host, port)).await.with_context(unreachable)?;
        if !is_encrypted {
            return exchange(stream, request).await.with_context(unreachable);
        }
        let name = ServerName::try_from(host.to_owned()).with_context(unreachable)?;
        let stream = connector()?.connect(name, stream).await.with_context(unreachable)?;
        exchange(stream, request).await.with_context(unreachable)
    }
}

/// Lists the broken rules of a 422 reply.
fn rules(problem: &Value) -> String {
    let broken = problem["detail"].as_array().into_iter().flatten().map(|rule| {
        let place = rule["loc"].as_array().into_iter().flatten().filter_map(Value::as_str).skip(1);
        let place = place.collect::<Vec<_>>().join(".").replace(".[", "[");
        format!("{place}: {}", rule["msg"].as_str().unwrap_or_default())
    });
    let broken = broken.collect::<Vec<_>>().join("; ");
    if broken.is_empty() { "no reason given".to_owned() } else { broken }
}

/// Builds a query string from the given parameters; empty without any.
pub(crate) fn query(parameters: &[(&str, Option<String>)]) -> String {
    let given = parameters.iter().filter_map(|(name, value)| Some(format!("{name}={}", encode(value.as_ref()?))));
    let given = given.collect::<Vec<_>>().join("&");
    if given.is_empty() { given } else { format!("?{given}") }
}

fn encode(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => encoded.push(char::from(byte)),
            _ => encoded += &format!("%{byte:02X}"),
        }
    }
    encoded
}

/// Checks a path segment, which has to be a name. Ids are names as well.
pub(crate) fn named(what: &str, text: &str) -> anyhow::Result<Name> {
    text.parse().with_context(|| format!("invalid {what} {text:?}"))
}

fn connector() -> anyhow::Result<TlsConnector> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let config = builder.with_platform_verifier().context("could not read the system's certificates")?;
    Ok(TlsConnector::from(Arc::new(config.with_no_client_auth())))
}

/// Sends one request and waits for the reply, while the connection runs in its own task.
async fn exchange<S>(stream: S, request: Request<Full<Bytes>>) -> anyhow::Result<Response<Incoming>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    #[expect(clippy::disallowed_methods, reason = "the task ends with the command")]
    tokio::spawn(connection);
    Ok(sender.send_request(request).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_that_cannot_be_used_is_refused_with_its_form() {
        for text in ["", "localhost", "127.0.0.1:8071", "ftp://a", "http://"] {
            let error = Remote::new(text, None).map(drop).unwrap_err().to_string();
            assert!(error.contains("use the form http://127.0.0.1:8071"), "{text}: {error}");
        }
        assert!(Remote::new("https://hooks.example.com/everhook/", None).is_ok());
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let refusal = |status, key: Option<&str>, body: &str| {
            let remote = Remote::new(DEFAULT_URL, key.map(str::to_owned)).unwrap();
            remote.refusal(status, body.as_bytes()).to_string()
        };
        assert!(refusal(StatusCode::UNAUTHORIZED, None, "").contains("set EVERHOOK_KEY"));
        assert!(refusal(StatusCode::UNAUTHORIZED, Some("x"), "").contains("everhook key list"));
        let forbidden = refusal(StatusCode::FORBIDDEN, Some("x"), r#"{"code": "c", "detail": "Use an admin key."}"#);
        assert!(forbidden.ends_with("Use an admin key."), "{forbidden}");
        let missing =
            refusal(StatusCode::NOT_FOUND, None, r#"{"code": "not_found", "detail": "job job_123 not found"}"#);
        assert_eq!(missing, "job job_123 not found (asked http://127.0.0.1:8071/)");
        assert!(refusal(StatusCode::BAD_GATEWAY, None, "<html>").contains("answered 502"));
        let rule =
            r#"{"detail": [{"loc": ["body", "jobs", "[0]", "queue"], "msg": "must not be empty", "type": "t"}]}"#;
        assert!(refusal(StatusCode::UNPROCESSABLE_ENTITY, None, rule).ends_with("jobs[0].queue: must not be empty"));
    }

    #[test]
    fn a_query_holds_any_text() {
        let given = [("a", Some("x y&z".to_owned())), ("b", None), ("c", Some("ü".to_owned()))];
        assert_eq!(query(&given), "?a=x%20y%26z&c=%C3%BC");
        assert_eq!(query(&[("a", None)]), "");
    }

    #[test]
    fn a_path_before_the_api_is_kept() {
        let path = |url| Remote::new(url, None).unwrap().request(Method::GET, "/node", None).unwrap().uri().to_string();
        assert_eq!(path("http://a"), "/api/v1/node");
        assert_eq!(path("http://a/hooks/"), "/hooks/api/v1/node");
    }
}
