//! Spans of a distributed trace: one for the acceptance of a message, one for each attempt to deliver it.
//!
//! The engine hands ended spans to whoever exports them. A full line drops spans: traces must not delay deliveries.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use everhook_core::id::{AttemptId, EndpointId};
use everhook_core::message::Message;
use everhook_core::outcome::Class;
use everhook_core::time::Timestamp;
use everhook_core::trace::{MessageTrace, TraceContext};
use everhook_store::lease::Appended;
use tokio::sync::mpsc;

use crate::node::Node;
use crate::settle::AttemptEnd;

/// Ended spans that wait for their export.
const SPANS_MAX: usize = 8192;

/// An ended span.
#[derive(Clone, Debug)]
pub struct TraceSpan {
    pub name: &'static str,
    /// Whether the span is a request to another service.
    pub is_client: bool,
    pub context: TraceContext,
    pub parent: Option<[u8; 8]>,
    pub begun: Timestamp,
    pub took: Duration,
    pub texts: Vec<(&'static str, String)>,
    pub numbers: Vec<(&'static str, i64)>,
    /// The reason of a failure.
    pub failed: Option<String>,
}

/// Where ended spans go.
#[derive(Debug)]
pub(crate) struct Tracer {
    spans: mpsc::Sender<TraceSpan>,
    share: f64,
    dropped: AtomicU64,
}

/// An attempt that is under way.
pub(crate) struct Attempting {
    /// The context in the `traceparent` header of the request.
    pub(crate) header: Option<TraceContext>,
    /// The span, if it is exported.
    span: Option<(TraceContext, [u8; 8])>,
}

impl Node {
    /// Starts to record spans, for this share of the messages whose senders gave no trace. Returns the ended spans.
    pub fn trace(&self, share: f64) -> mpsc::Receiver<TraceSpan> {
        let (spans, ended) = mpsc::channel(SPANS_MAX);
        let _ = self.tracer.set(Tracer { spans, share, dropped: AtomicU64::new(0) });
        ended
    }

    /// The spans that were dropped since the last call, because their export was too slow.
    pub fn take_dropped_spans(&self) -> u64 {
        self.tracer.get().map_or(0, |tracer| tracer.dropped.swap(0, Ordering::Relaxed))
    }

    pub(crate) fn trace_accepted(&self, begun: Duration, appended: &[Appended]) {
        let Some(tracer) = self.tracer.get() else { return };
        for appended in appended {
            let Appended::Accepted { message, leased, pending } = appended else { continue };
            let trace = MessageTrace::of(message.id, message.rest.trace, tracer.share);
            if !trace.accept.is_sampled {
                continue;
            }
            let took = self.clock.elapsed().saturating_sub(begun);
            tracer.end(TraceSpan {
                name: "accept message",
                is_client: false,
                context: trace.accept,
                parent: trace.parent,
                begun: self.clock.now().minus(took),
                took,
                texts: texts_of(message),
                numbers: vec![("everhook.deliveries", i64::try_from(leased.len() + pending).unwrap_or(i64::MAX))],
                failed: None,
            });
        }
    }

    pub(crate) fn begin_span(&self, message: &Message, attempt: AttemptId) -> Attempting {
        let given = message.rest.trace;
        let traced = self.tracer.get().map(|tracer| MessageTrace::of(message.id, given, tracer.share));
        match traced.filter(|trace| trace.accept.is_sampled) {
            Some(trace) => {
                let span = trace.attempt(attempt);
                Attempting { header: Some(span), span: Some((span, trace.accept.span)) }
            }
            None => Attempting { header: given, span: None },
        }
    }

    /// Ends the span of an attempt. `number` is 1 for the first attempt.
    pub(crate) fn end_span(
        &self,
        begun: &Attempting,
        message: &Message,
        to: EndpointId,
        number: u32,
        end: &AttemptEnd,
    ) {
        let (Some(tracer), Some((context, parent))) = (self.tracer.get(), begun.span) else { return };
        let AttemptEnd::Attempted(record) = end else { return };
        let mut texts = texts_of(message);
        texts.push(("everhook.endpoint.id", to.to_string()));
        let mut numbers = vec![("everhook.attempt.number", i64::from(number))];
        // Without a reply the status is 0.
        numbers.extend((record.status > 0).then_some(("http.response.status_code", i64::from(record.status))));
        tracer.end(TraceSpan {
            name: "deliver message",
            is_client: true,
            context,
            parent: Some(parent),
            begun: record.started_at,
            took: record.duration,
            texts,
            numbers,
            failed: (record.class != Class::Success).then(|| format!("{:?}", record.class).to_lowercase()),
        });
    }
}

fn texts_of(message: &Message) -> Vec<(&'static str, String)> {
    vec![
        ("everhook.message.id", message.id.to_string()),
        ("everhook.application.id", message.application.to_string()),
        ("everhook.event_type", message.event_type.to_string()),
    ]
}

impl Tracer {
    fn end(&self, span: TraceSpan) {
        if self.spans.try_send(span).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}
