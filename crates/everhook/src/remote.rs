//! A client of a running server's API, for all commands except serve, migrate, key and config.
//!
//! `--url`, `--context`, `EVERHOOK_URL` or the current context name the server, in this order. The key comes from the
//! same source as the URL, unless `--key` overrides it: a key must not reach a server that it was not meant for. Errors
//! say what to do when the server is unreachable or refuses.

use std::time::Duration;

use anyhow::{Context, anyhow};
use bytes::Bytes;
use clap::Args;
use everhook_core::limits::PAGE_MAX;
use everhook_core::name::Name;
use http::header::{AUTHORIZATION, HOST, USER_AGENT};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use serde::Serialize;
use serde_json::{Value, json};

use crate::confirm::Consent;
use crate::context::Contexts;
use crate::environment;
use crate::exit::{Exit, Failure, usage};
use crate::http_client;
use crate::output::{Answer, FormatArgs};

const DEFAULT_URL: &str = "http://127.0.0.1:8071";
/// Time limit of one request.
const DEADLINE: Duration = Duration::from_secs(30);
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Options of all commands that talk to a running server.
#[derive(Debug, Args)]
pub(crate) struct ClientArgs {
    /// Address of the server [default: EVERHOOK_URL, the current context, or http://127.0.0.1:8071].
    #[arg(id = "server_url", long = "url", global = true, value_name = "URL", conflicts_with = "server_context")]
    #[arg(help_heading = "Server")]
    url: Option<String>,
    /// API key [default: EVERHOOK_KEY, or the key of the context].
    #[arg(id = "server_key", long = "key", global = true, value_name = "KEY", help_heading = "Server")]
    key: Option<String>,
    /// Server and key of this context (see `everhook context`).
    #[arg(id = "server_context", long = "context", global = true, value_name = "NAME", help_heading = "Server")]
    context: Option<String>,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

impl ClientArgs {
    pub(crate) fn is_given(&self) -> bool {
        self.url.is_some() || self.key.is_some() || self.context.is_some() || self.format.is_given()
    }

    /// Whether the arguments name a server, or a key for one.
    pub(crate) fn names_server(&self) -> bool {
        self.url.is_some() || self.key.is_some() || self.context.is_some()
    }

    /// Chooses the server and the key.
    pub(crate) fn remote(&self) -> anyhow::Result<Remote> {
        let environment = environment::remote();
        if self.url.is_some() || (self.context.is_none() && !environment.is_empty()) {
            return self.with_variables(environment);
        }
        let contexts = Contexts::of_user()?;
        let chosen = match &self.context {
            Some(name) => Some((name.as_str(), contexts.find(name)?)),
            None => contexts.current(),
        };
        let Some((name, context)) = chosen else { return self.with_variables(environment) };
        let url = server_url(&format!("URL of the context {name}"), &context.url)?;
        let key_source = if self.key.is_some() { "--key".to_owned() } else { format!("the context {name}") };
        let key = self.key.clone().or_else(|| context.key.clone());
        Ok(Remote { url, key, key_source, protected: context.protected.then(|| name.to_owned()) })
    }

    fn with_variables(&self, environment: environment::Remote) -> anyhow::Result<Remote> {
        let url = match (&self.url, &environment.url) {
            (Some(url), _) => server_url("--url", url)?,
            (None, Some(url)) => server_url("EVERHOOK_URL", url)?,
            (None, None) => server_url("default", DEFAULT_URL)?,
        };
        let key_source = if self.key.is_some() { "--key" } else { "EVERHOOK_KEY" }.to_owned();
        Ok(Remote { url, key: self.key.clone().or(environment.key), key_source, protected: None })
    }
}

/// Parses the address of a server.
pub(crate) fn server_url(source: &str, text: &str) -> anyhow::Result<Uri> {
    let url = text.parse::<Uri>().ok();
    let url = url.filter(|url| url.host().is_some() && matches!(url.scheme_str(), Some("http" | "https")));
    url.ok_or_else(|| usage(format!("invalid {source} {text:?}: use the form {DEFAULT_URL}")))
}

/// A running server with a key. Not `Debug`, because the key is a secret.
pub(crate) struct Remote {
    url: Uri,
    key: Option<String>,
    /// The origin of the key, as error messages name it.
    key_source: String,
    /// Name of the context, if it is protected.
    protected: Option<String>,
}

/// The beginning of a list.
pub(crate) struct Found {
    pub(crate) items: Vec<Value>,
    /// Whether the list continues.
    pub(crate) more: bool,
}

/// An object to delete.
pub(crate) struct Deletion {
    pub(crate) path: String,
    pub(crate) name: String,
    /// The object with all that goes with it, such as "queue email with its limits".
    pub(crate) what: String,
}

impl Remote {
    /// A server of this process, for `listen --demo`.
    pub(crate) fn local(url: &str, key: String) -> anyhow::Result<Remote> {
        let url = server_url("address", url)?;
        Ok(Remote { url, key: Some(key), key_source: "the demo".to_owned(), protected: None })
    }

    /// Asks for consent to `what`, such as "delete queue email".
    pub(crate) fn confirm(&self, consent: Consent, what: &str) -> anyhow::Result<()> {
        consent.to(&format!("{what} at {}", self.url), self.protected.as_deref())
    }

    pub(crate) async fn get(&self, path: &str) -> anyhow::Result<Value> {
        let body = self.call(Method::GET, path, None).await?;
        serde_json::from_slice(&body).with_context(|| {
            format!(
                "{} did not answer with JSON: set EVERHOOK_URL or --url to the address of an Everhook server",
                self.url
            )
        })
    }

    /// Reads a list that has only one page.
    pub(crate) async fn get_data(&self, path: &str) -> anyhow::Result<Vec<Value>> {
        let mut answer = self.get(path).await?;
        match answer["data"].take() {
            Value::Array(data) => Ok(data),
            _ => Ok(Vec::new()),
        }
    }

    /// Reads every page of a list.
    pub(crate) async fn get_all(&self, path: &str) -> anyhow::Result<Vec<Value>> {
        Ok(self.get_some(path, usize::MAX).await?.items)
    }

    /// Reads the first `limit` items of a list, at least one, page by page.
    pub(crate) async fn get_some(&self, path: &str, limit: usize) -> anyhow::Result<Found> {
        let limit = limit.max(1);
        let mark = if path.contains('?') { '&' } else { '?' };
        let (mut items, mut iterator) = (Vec::new(), String::new());
        loop {
            let wanted = PAGE_MAX.min(limit - items.len());
            let mut answer = self.get(&format!("{path}{mark}limit={wanted}{iterator}")).await?;
            if let Value::Array(data) = answer["data"].take() {
                items.extend(data);
            }
            let more = answer["done"] == false;
            match answer["iterator"].as_str() {
                Some(last) if more && items.len() < limit => iterator = format!("&iterator={}", encode(last)),
                _ => return Ok(Found { items, more }),
            }
        }
    }

    pub(crate) async fn delete(&self, path: &str) -> anyhow::Result<()> {
        self.call(Method::DELETE, path, None).await.map(drop)
    }

    /// Asks for consent, deletes an object, and says so.
    pub(crate) async fn delete_object(&self, consent: Consent, object: Deletion) -> anyhow::Result<Answer> {
        let Deletion { path, name, what } = object;
        self.confirm(consent, &format!("delete {what}"))?;
        self.delete(&path).await?;
        let text = format!("deleted {name}");
        Ok(Answer::line(json!({ "deleted": name }), text))
    }

    pub(crate) async fn patch(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        let body = self.call(Method::PATCH, path, Some(body.to_string())).await?;
        Ok(serde_json::from_slice(&body).unwrap_or_default())
    }

    pub(crate) async fn put(&self, path: &str, body: &impl Serialize) -> anyhow::Result<Value> {
        let body = serde_json::to_string(body).context("could not serialise the request")?;
        let answer = self.call(Method::PUT, path, Some(body)).await?;
        Ok(serde_json::from_slice(&answer).unwrap_or_default())
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
        let silent = |_| Failure::error(Exit::Unreachable, format!("{} did not answer within {DEADLINE:?}", self.url));
        let (status, body) = called.map_err(silent)??;
        if status.is_success() { Ok(body) } else { Err(self.refusal(status, &body)) }
    }

    /// Turns an error reply into a message with a remedy.
    fn refusal(&self, status: StatusCode, body: &[u8]) -> anyhow::Error {
        let problem = serde_json::from_slice::<Value>(body).unwrap_or_default();
        let text = problem["detail"].as_str().or_else(|| problem["reason"].as_str());
        let detail = text.map_or_else(|| rules(&problem), str::to_owned);
        let (url, source) = (&self.url, &self.key_source);
        let (exit, text) = match (status, &self.key) {
            (StatusCode::UNAUTHORIZED, None) => {
                let create = "`everhook key create` on the server creates one";
                (Exit::Refused, format!("{url} requires a key: set EVERHOOK_KEY or --key ({create})"))
            }
            (StatusCode::UNAUTHORIZED, Some(_)) => {
                let remedy = "use an active key (`everhook key list` on the server)";
                (Exit::Refused, format!("{url} does not accept the key in {source}: {remedy}"))
            }
            (StatusCode::FORBIDDEN, _) => {
                (Exit::Refused, format!("the key in {source} is not allowed to do this at {url}. {detail}"))
            }
            (StatusCode::NOT_FOUND, _) => (Exit::NotFound, format!("{detail} (asked {url})")),
            (StatusCode::UNPROCESSABLE_ENTITY, _) => (Exit::Failed, format!("{url} refused the request: {detail}")),
            (StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT, _) => {
                (Exit::Unreachable, format!("{url} answered {status}: {detail}"))
            }
            _ => (Exit::Failed, format!("{url} answered {status}: {detail}")),
        };
        Failure::coded(exit, text, problem["code"].as_str().unwrap_or_default())
    }

    async fn answer(&self, method: Method, path: &str, body: Option<String>) -> anyhow::Result<(StatusCode, Bytes)> {
        let response = http_client::send(&self.url, self.request(method, path, body)?).await.map_err(|error| {
            let remedy = "start the server, or set EVERHOOK_URL or --url to its address";
            Failure::error(Exit::Unreachable, format!("could not reach {}: {remedy}: {error:#}", self.url))
        })?;
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
        request.body(Full::new(body)).map_err(|_| {
            usage(format!("the key in {} contains invalid characters: copy the key again", self.key_source))
        })
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
    text.parse().map_err(|error| usage(format!("invalid {what} {text:?}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(url: &str, key: Option<&str>) -> Remote {
        let (key, key_source) = (key.map(str::to_owned), "EVERHOOK_KEY".to_owned());
        Remote { url: server_url("EVERHOOK_URL", url).unwrap(), key, key_source, protected: None }
    }

    #[test]
    fn a_url_that_cannot_be_used_is_refused_with_its_form() {
        for text in ["", "localhost", "127.0.0.1:8071", "ftp://a", "http://"] {
            let error = server_url("EVERHOOK_URL", text).map(drop).unwrap_err().to_string();
            assert!(error.contains("use the form http://127.0.0.1:8071"), "{text}: {error}");
        }
        assert!(server_url("EVERHOOK_URL", "https://hooks.example.com/everhook/").is_ok());
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let refusal = |status, key: Option<&str>, body: &str| {
            let remote = remote(DEFAULT_URL, key);
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
        let path = |url| remote(url, None).request(Method::GET, "/node", None).unwrap().uri().to_string();
        assert_eq!(path("http://a"), "/api/v1/node");
        assert_eq!(path("http://a/hooks/"), "/hooks/api/v1/node");
    }
}
