//! Exports spans with the OpenTelemetry protocol: JSON over HTTP, in batches.
//!
//! The address is the operator's own, so these requests do not pass the egress rules of deliveries. A collector that
//! does not answer costs spans, never deliveries.

use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use bytes::Bytes;
use everhook_core::trace::hex;
use everhook_engine::node::Node;
use everhook_engine::trace::TraceSpan;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{Request, Uri};
use http_body_util::Full;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::config::{Otlp, Secret};
use crate::http_client;

/// Spans of one request.
const BATCH_MAX: usize = 512;
/// How long an ended span waits for others at most.
const PACE: Duration = Duration::from_secs(1);
const DEADLINE: Duration = Duration::from_secs(10);

/// The export of a running server.
pub(crate) struct Exporter {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Exporter {
    pub(crate) fn start(node: &Arc<Node>, otlp: &Otlp, version: &'static str) -> Exporter {
        let (stop, spans) = (CancellationToken::new(), node.trace(otlp.share));
        let export = Export { node: Arc::clone(node), otlp: otlp.clone(), version, has_failed: false };
        #[expect(clippy::disallowed_methods, reason = "`end` waits for it")]
        let task = tokio::spawn(export.run(spans, stop.clone()));
        Exporter { stop, task }
    }

    /// Sends the remaining spans.
    pub(crate) async fn end(self) {
        self.stop.cancel();
        let _ = self.task.await;
    }
}

struct Export {
    node: Arc<Node>,
    otlp: Otlp,
    version: &'static str,
    /// A failure is logged once, until the next success.
    has_failed: bool,
}

impl Export {
    async fn run(mut self, mut spans: mpsc::Receiver<TraceSpan>, stop: CancellationToken) {
        let mut batch = Vec::new();
        while !stop.is_cancelled() {
            let more = spans.recv_many(&mut batch, BATCH_MAX);
            if stop.run_until_cancelled(more).await == Some(0) {
                return;
            }
            let _ = stop.run_until_cancelled(tokio::time::sleep(PACE)).await;
            while batch.len() < BATCH_MAX
                && let Ok(span) = spans.try_recv()
            {
                batch.push(span);
            }
            self.send(&batch).await;
            batch.clear();
        }
        while let Ok(span) = spans.try_recv() {
            batch.push(span);
        }
        for rest in batch.chunks(BATCH_MAX) {
            self.send(rest).await;
        }
    }

    async fn send(&mut self, spans: &[TraceSpan]) {
        let Otlp { url, authorization, .. } = &self.otlp;
        let body = resource_spans(spans, self.version).to_string();
        let sent = match tokio::time::timeout(DEADLINE, post(url, authorization.as_ref(), body)).await {
            Ok(sent) => sent,
            Err(_) => Err(anyhow::anyhow!("no answer within {} s", DEADLINE.as_secs())),
        };
        let dropped = self.node.take_dropped_spans();
        match &sent {
            Ok(()) if self.has_failed => info!("spans are exported to {url} again"),
            Ok(()) => {}
            Err(error) if !self.has_failed => {
                warn!("could not export spans to {url}, which are lost: check `otlp_url` and the collector: {error:#}");
            }
            Err(_) => {}
        }
        self.has_failed = sent.is_err();
        if dropped > 0 {
            warn!("dropped {dropped} spans, because {url} is too slow: lower `trace_share`");
        }
    }
}

async fn post(url: &Uri, authorization: Option<&Secret>, body: String) -> anyhow::Result<()> {
    let host = url.authority().map_or("", |authority| authority.as_str());
    let path = format!("{}/v1/traces", url.path().trim_end_matches('/'));
    let mut request = Request::post(path).header(HOST, host).header(CONTENT_TYPE, "application/json");
    if let Some(Secret(value)) = authorization {
        request = request.header(AUTHORIZATION, value);
    }
    let response = http_client::send(url, request.body(Full::new(Bytes::from(body)))?).await?;
    if !response.status().is_success() {
        bail!("it answered {}", response.status());
    }
    Ok(())
}

/// The message `ExportTraceServiceRequest` in its JSON form.
fn resource_spans(spans: &[TraceSpan], version: &str) -> Value {
    let resource = json!({ "attributes": [text("service.name", "everhook"), text("service.version", version)] });
    let spans: Vec<Value> = spans.iter().map(span).collect();
    json!({ "resourceSpans": [{ "resource": resource, "scopeSpans": [{ "scope": { "name": "everhook" }, "spans": spans }] }] })
}

fn span(span: &TraceSpan) -> Value {
    let begun = i128::from(span.begun.as_micros()) * 1000;
    let ended = begun + i128::try_from(span.took.as_nanos()).unwrap_or(i128::MAX / 2);
    let texts = span.texts.iter().map(|(key, value)| text(key, value));
    let numbers =
        span.numbers.iter().map(|(key, value)| json!({ "key": key, "value": { "intValue": value.to_string() } }));
    // Kinds: 2 is a server's span, 3 a client's. Status: 0 is unset, 2 an error.
    let mut json = json!({
        "traceId": hex(&span.context.trace),
        "spanId": hex(&span.context.span),
        "name": span.name,
        "kind": if span.is_client { 3 } else { 2 },
        "startTimeUnixNano": begun.to_string(),
        "endTimeUnixNano": ended.to_string(),
        "attributes": texts.chain(numbers).collect::<Vec<_>>(),
        "status": match &span.failed {
            Some(reason) => json!({ "code": 2, "message": reason }),
            None => json!({ "code": 0 }),
        },
    });
    if let Some(parent) = &span.parent {
        json["parentSpanId"] = hex(parent).into();
    }
    json
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}
