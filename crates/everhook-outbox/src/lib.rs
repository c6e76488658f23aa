//! Events as part of your own transaction: the client side of Everhook's outbox.
//!
//! [`postgres::send`] and [`sqlite::send`] insert one row in your current transaction. If you commit, Everhook accepts
//! the event once and delivers it; if you roll back, the event never existed. This crate talks to no server: Everhook
//! reads the row.
//! Features: `postgres` for `tokio-postgres`, `sqlite` for `rusqlite`. Without features, only the SQL texts of the
//! tables are available.

#![warn(missing_docs)]

#[cfg(feature = "postgres")]
pub mod postgres;
pub mod schema;
#[cfg(feature = "sqlite")]
pub mod sqlite;

/// An event for one application. All fields except the first three have a usable default.
///
/// ```
/// use everhook_outbox::Event;
///
/// let event = Event { tags: &["blue"], ..Event::new("acme", "order.paid", r#"{"order": 7}"#) };
/// assert_eq!(event.application, "acme");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event<'a> {
    /// The application's id or uid.
    pub application: &'a str,
    /// The event type, such as `order.paid`.
    pub event_type: &'a str,
    /// A JSON object, sent byte for byte.
    pub payload: &'a str,
    /// The environment's name; `None` means the environment of the outbox.
    pub environment: Option<&'a str>,
    /// Your own id of the event, accepted once per application.
    pub event_id: Option<&'a str>,
    /// Only endpoints that listen to one of these channels, or to all channels, get the event.
    pub channels: &'a [&'a str],
    /// Tags to find the message by.
    pub tags: &'a [&'a str],
    /// Delivery time in microseconds since the Unix epoch; `None` means at once.
    pub deliver_at_us: Option<i64>,
    /// A once-slot: of all events with this key in one phase, only the first is delivered.
    pub once_key: Option<&'a str>,
    /// The phase of the once-slot; `None` means the current one.
    pub once_phase: Option<i64>,
}

impl<'a> Event<'a> {
    /// Returns an event without optional fields.
    pub fn new(application: &'a str, event_type: &'a str, payload: &'a str) -> Event<'a> {
        Event { application, event_type, payload, ..Event::default() }
    }
}
