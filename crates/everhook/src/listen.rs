//! `everhook listen`: receives webhooks on this machine, verifies and shows them, and forwards them to a local program.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use clap::Args;
use everhook_core::verify::VerifyingKey;
use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::cli::{note, print};
use crate::exit::usage;
use crate::http_client;
use crate::output::{Paint, wants_colour, write_out};
use crate::plain::{plain, plain_line};
use crate::table::seconds;
use crate::verify::{SignatureHeaders, TOLERANCE, parse_secret};
use crate::{demo, when};

/// Largest body that the listener accepts.
const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Time limit of the program that requests are forwarded to.
const FORWARD_DEADLINE: Duration = Duration::from_secs(30);

#[derive(Debug, Args)]
pub(crate) struct ListenArgs {
    /// Port on this machine; 0 chooses a free one.
    #[arg(long, short = 'p', value_name = "PORT", default_value_t = 9000)]
    port: u16,
    /// Secret of the endpoint (whsec_… or whpk_…): verify every request, and refuse forged ones with 401.
    #[arg(long, value_name = "SECRET", conflicts_with = "demo")]
    secret: Option<String>,
    /// Accepted age of a request, and accepted difference of the clocks.
    #[arg(long, value_name = "DURATION", default_value = TOLERANCE, value_parser = when::span, requires = "secret")]
    tolerance: Duration,
    /// Forward requests to this port or URL on this machine, and answer with its reply.
    #[arg(long, value_name = "PORT or URL")]
    forward: Option<String>,
    /// Print one JSON object per request.
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// Start a throw-away server, too, and send a first signed webhook here.
    #[arg(long)]
    demo: bool,
}

impl ListenArgs {
    /// Listens until the process is interrupted.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let forward = self.forward.as_deref().map(local_url).transpose()?;
        let key = self.secret.as_deref().map(parse_secret).transpose()?;
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), self.port);
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("could not listen on {address}: choose another port with --port"))?;
        let url = format!("http://{}/", listener.local_addr().context("could not tell the address listened on")?);
        if self.demo {
            let listening =
                |key: VerifyingKey| Listening { key: Some(key), tolerance: self.tolerance, forward, json: self.json };
            return demo::run(&url, async |key| serve(listener, listening(key)).await).await;
        }
        note(&format!("listening on {url}: press Ctrl-C to stop"));
        let listening = Listening { key, tolerance: self.tolerance, forward, json: self.json };
        tokio::select! {
            served = serve(listener, listening) => served,
            _ = tokio::signal::ctrl_c() => Ok(()),
        }
    }
}

struct Listening {
    key: Option<VerifyingKey>,
    tolerance: Duration,
    forward: Option<Uri>,
    json: bool,
}

async fn serve(listener: TcpListener, listening: Listening) -> anyhow::Result<()> {
    let router = Router::new().fallback(receive).with_state(Arc::new(listening));
    axum::serve(listener, router).await.context("could not listen any more")
}

async fn receive(State(listening): State<Arc<Listening>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let Ok(body) = Limited::new(body, BODY_BYTES_MAX).collect().await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let received =
        Received { method: head.method.to_string(), uri: head.uri, headers: head.headers, body: body.to_bytes() };
    let verdict = listening.judge(&received);
    let (reply, error) = match (&verdict, &listening.forward) {
        (Verdict::Refused(_), _) => (StatusCode::UNAUTHORIZED.into_response(), None),
        (_, None) => (StatusCode::NO_CONTENT.into_response(), None),
        (_, Some(url)) => match forward(url, &received).await {
            Ok(reply) => (reply, None),
            Err(error) => (StatusCode::BAD_GATEWAY.into_response(), Some(format!("could not forward: {error:#}"))),
        },
    };
    let shown = Shown { verdict: &verdict, status: reply.status(), error };
    let printed = if listening.json {
        print(&format!("{}\n", shown.json(&received)))
    } else {
        write_out(&shown.text(&received, Paint { is_on: wants_colour() }))
    };
    if let Err(error) = printed {
        note(&format!("{error:#}"));
    }
    reply
}

struct Received {
    method: String,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
}

enum Verdict {
    /// No secret was given.
    Unchecked,
    Verified,
    Refused(String),
}

impl Listening {
    fn judge(&self, received: &Received) -> Verdict {
        let Some(key) = &self.key else { return Verdict::Unchecked };
        let headers = match SignatureHeaders::find(|name| received.header(name)) {
            Ok(headers) => headers,
            Err(missing) => return Verdict::Refused(format!("header {missing} is missing")),
        };
        match headers.verify(key, &received.body, self.tolerance) {
            Ok(()) => Verdict::Verified,
            Err(invalid) => Verdict::Refused(invalid.to_string()),
        }
    }
}

impl Received {
    fn header(&self, name: &str) -> Option<String> {
        self.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
    }

    fn id(&self) -> String {
        ["webhook-id", "svix-id"].iter().find_map(|name| self.header(name)).unwrap_or_default()
    }

    /// The body as JSON, or as text if it is no JSON.
    fn payload(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| Value::from(String::from_utf8_lossy(&self.body).as_ref()))
    }
}

/// A received request with its reply, for the terminal.
struct Shown<'a> {
    verdict: &'a Verdict,
    status: StatusCode,
    error: Option<String>,
}

impl Shown<'_> {
    fn signature(&self) -> String {
        match self.verdict {
            Verdict::Unchecked => "unchecked".to_owned(),
            Verdict::Verified => "verified".to_owned(),
            Verdict::Refused(reason) => format!("refused: {reason}"),
        }
    }

    fn json(&self, received: &Received) -> Value {
        let headers =
            received.headers.iter().map(|(name, value)| (name.as_str(), String::from_utf8_lossy(value.as_bytes())));
        json!({
            "at": when::now(), "method": received.method, "path": received.uri.to_string(), "id": received.id(),
            "headers": headers.collect::<std::collections::BTreeMap<_, _>>(), "body": received.payload(),
            "signature": self.signature(), "status": self.status.as_u16(), "error": self.error,
        })
    }

    fn text(&self, received: &Received, paint: Paint) -> String {
        let (at, id) = (seconds(&when::now().to_string()), received.id());
        let head = format!("{at}  {} {}  {id}", received.method, received.uri);
        let signature = plain_line(&self.signature()).into_owned();
        let body = match received.payload() {
            Value::String(text) => text,
            json => format!("{json:#}"),
        };
        let mut text = format!(
            "{}  {}  answered {}\n",
            plain_line(head.trim_end()),
            paint.state(&signature),
            self.status.as_u16()
        );
        if let Some(error) = &self.error {
            text += &format!("{}\n", plain_line(error));
        }
        text + &format!("{}\n\n", plain(body.trim_end()))
    }
}

/// Sends a received request to a program on this machine.
async fn forward(url: &Uri, received: &Received) -> anyhow::Result<Response> {
    let authority = url.authority().map_or("", |authority| authority.as_str());
    let path = match (url.path(), received.uri.path_and_query()) {
        ("/", Some(path)) => path.as_str(),
        (path, _) => path,
    };
    let mut request = http::Request::builder().method(received.method.as_str()).uri(path).header(HOST, authority);
    for (name, value) in &received.headers {
        if ![HOST, CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING].contains(name) {
            request = request.header(name, value);
        }
    }
    let request = request.body(Full::new(received.body.clone())).context("the request cannot be forwarded")?;
    let answered = async {
        let (head, body) = http_client::send(url, request).await?.into_parts();
        let body = Limited::new(body, BODY_BYTES_MAX).collect().await.map_err(|error| anyhow::anyhow!(error))?;
        anyhow::Ok((head, body.to_bytes()))
    };
    let (head, body) = tokio::time::timeout(FORWARD_DEADLINE, answered).await.context("no reply in time")??;
    let mut reply = Response::new(Body::from(body));
    *reply.status_mut() = head.status;
    for (name, value) in &head.headers {
        if ![CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING].contains(name) {
            reply.headers_mut().append(name, value.clone());
        }
    }
    Ok(reply)
}

/// Parses a port, or a URL of this machine.
fn local_url(text: &str) -> anyhow::Result<Uri> {
    let bad = || usage(format!("invalid --forward {text:?}: use a port, or a URL such as http://127.0.0.1:3000/hooks"));
    if let Ok(port) = text.parse::<u16>() {
        return format!("http://127.0.0.1:{port}/").parse().map_err(|_| bad());
    }
    let url = text.parse::<Uri>().map_err(|_| bad())?;
    let is_local = matches!(url.host(), Some("localhost" | "127.0.0.1" | "[::1]"));
    if url.scheme_str() == Some("http") && is_local { Ok(url) } else { Err(bad()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_gets_forwarded_requests() {
        assert_eq!(local_url("3000").unwrap().to_string(), "http://127.0.0.1:3000/");
        assert_eq!(local_url("http://localhost:3000/hooks").unwrap().path(), "/hooks");
        for text in ["", "http://example.com/", "https://127.0.0.1/", "localhost:3000", "70000"] {
            assert!(local_url(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_request_is_shown_without_control_of_the_terminal() {
        let received = Received {
            method: "POST".to_owned(),
            uri: "/hook".parse().unwrap(),
            headers: [(http::HeaderName::from_static("webhook-id"), "msg_1".parse().unwrap())].into_iter().collect(),
            body: Bytes::from_static(b"\x1b[2Jtext"),
        };
        let verdict = Verdict::Refused("header webhook-signature is missing".to_owned());
        let shown = Shown { verdict: &verdict, status: StatusCode::UNAUTHORIZED, error: None };
        let text = shown.text(&received, Paint { is_on: false });
        let (_, text) = text.split_once("  ").unwrap();
        let head = "POST /hook  msg_1  refused: header webhook-signature is missing  answered 401";
        assert_eq!(text, format!("{head}\n\\u001b[2Jtext\n\n"));
    }
}
